"""The `spectrabeam` distribution; also Beam's `--setup_file` for remote workers."""

from pathlib import Path

from setuptools import setup

# The folders of the checkout are the packages, so nothing generic lands in a user's environment.
FOLDERS = {
    "spectrabeam.pipeline": "pipeline",
    "spectrabeam.transforms": "transforms",
    "spectrabeam.transforms.features": "transforms/features",
    "spectrabeam.transforms.formats": "transforms/formats",
    **{
        f"spectrabeam.transforms.formats.{kind}": f"transforms/formats/{kind}"
        for kind in ("arrays", "audio", "measurement", "seismic", "tables")
    },
}
FORMATS = {
    "seismic": ["obspy>=1.4.1"],
    "tdms": ["npTDMS>=1.9,<2"],
    "wfdb": ["wfdb>=4.1"],
    "zarr": ["zarr>=2.18"],
}
ALL_FORMATS = [package for packages in FORMATS.values() for package in packages]
PLOT = ["matplotlib>=3.8"]
README = Path(__file__).with_name("README.md")

setup(
    name="spectrabeam",
    version="0.1.0",
    description="Turns archives of raw waveforms into training-ready spectra, with Apache Beam and TensorFlow",
    long_description=README.read_text(encoding="utf-8") if README.exists() else "",
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    python_requires=">=3.10,<3.14",
    packages=list(FOLDERS),
    package_dir=FOLDERS,
    entry_points={"console_scripts": ["spectrabeam=spectrabeam.pipeline.__main__:main"]},
    install_requires=[
        "apache-beam>=2.70,<3",
        "google-crc32c>=1.5",  # without a crc32c in C, Beam fails at its first record only
        "h5py>=3.10",  # Keras brings it anyway
        "numpy>=1.26",
        "pyarrow>=16",
        "pydantic>=2.8,<3",
        "pyyaml>=6",
        "rich>=13.7",
        "scipy>=1.11",
        "soundfile>=0.13",
        "soxr>=0.5",
        "tensorflow>=2.21,<3",  # tfx-bsl 1.21 pins 2.21, the first pair with wheels for Python 3.13
        "tensorflow-datasets>=4.9.7",
        "tensorflow-metadata>=1.16",  # tfx-bsl brings it anyway
        "tfx-bsl>=1.21,<2",
        "typing-extensions>=4.6",
    ],
    extras_require={
        **FORMATS,
        "formats": ALL_FORMATS,
        "gpu": ["tensorflow[and-cuda]>=2.21,<3"],
        "dev": [
            "basedpyright",
            "hypothesis>=6.100",
            "librosa>=0.11",
            "mlcroissant>=1.1",
            "pytest>=8",
            "ruff>=0.12",
            *ALL_FORMATS,
        ],
        "plot": PLOT,
        "bench": ["psutil>=5.9"],
    },
    classifiers=[
        "Development Status :: 4 - Beta",
        "Intended Audience :: Science/Research",
        "Operating System :: POSIX :: Linux",
        "Programming Language :: Python :: 3",
        "Programming Language :: Python :: 3.10",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Topic :: Scientific/Engineering",
    ],
)
