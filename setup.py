"""What pyproject.toml cannot say of a build: samples of conf/ and systemd/ go into the wheel, and one tree makes one
wheel and sdist, byte by byte, on any day, in any folder, under any umask.
"""

import gzip
import os
import tarfile
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

HERE = Path(__file__).parent
SHIPPED = "mirrormaker/shipped"  # in a wheel only; an editable install reads conf/ and systemd/ where they are
SAMPLES = ("conf/*.yaml", "conf/*.properties", "conf/prometheus/*", "conf/grafana/*", "systemd/*")
FIRST_TIME_OF_ZIP = 315532800  # 1980-01-01: a time that neither clock nor checkout decides

os.environ.setdefault("SOURCE_DATE_EPOCH", str(FIRST_TIME_OF_ZIP))  # read by bdist_wheel
os.umask(0o022)  # the modes of what is copied into the wheel


class BuildWithSamples(build_py):
    """build_py that copies conf/ and systemd/ below mirrormaker/shipped."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        for pattern in SAMPLES:
            found = sorted(path for path in HERE.glob(pattern) if path.is_file())
            if not found:
                raise FileNotFoundError(f"{pattern} matches no file beside setup.py: the wheel would lack its samples")
            for path in found:
                target = Path(self.build_lib, SHIPPED, path.relative_to(HERE))
                self.mkpath(str(target.parent))
                self.copy_file(str(path), str(target), preserve_mode=False)


class ReproducibleSdist(sdist):
    """sdist whose archive depends on names and contents alone: sorted, one owner, one time, two modes."""

    def make_archive(self, base_name, format, root_dir=None, base_dir=None, owner=None, group=None):  # type: ignore[no-untyped-def]
        if format != "gztar":
            return super().make_archive(base_name, format, root_dir, base_dir, owner, group)
        made = f"{base_name}.tar.gz"
        Path(made).parent.mkdir(parents=True, exist_ok=True)
        epoch = int(os.environ["SOURCE_DATE_EPOCH"])

        def plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
            entry.mode = 0o755 if entry.isdir() or entry.mode & 0o100 else 0o644
            entry.uid = entry.gid = 0
            entry.uname = entry.gname = ""
            entry.mtime = epoch
            return entry

        with (
            open(made, "wb") as file,
            gzip.GzipFile(filename="", fileobj=file, mode="wb", mtime=epoch) as packed,
            tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
        ):
            archive.add(base_dir, filter=plain)  # goes through folders by name
        return made


setup(cmdclass={"build_py": BuildWithSamples, "sdist": ReproducibleSdist})
