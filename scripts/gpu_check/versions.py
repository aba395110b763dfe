# SPDX-License-Identifier: Apache-2.0
"""Checks other versions of CUPTI than the machine's: a newer and an older one, brought there by --prepare. With a simulated GPU they are simulated, too."""

import re
import sys
import zipfile

from gpu_check import programs
from gpu_check.run import output

CARRIED = {13: "nvidia-cuda-cupti==13.5.25", 12: "nvidia-cuda-cupti-cu12==12.8.90"}
NEWEST = 130500  # result of cuptiGetVersion() in 13.5
SOME = ("many", "copies", "graphs", "events", "pools", "static_runtime", "driver_only", "reset", "forked")


def fetch(check):
    """Fetches the libraries from NVIDIA's wheels for machines without a network."""
    for major, wheel in CARRIED.items():
        folder = check.build / "carried" / str(major)
        if list(folder.glob("libcupti.so.*")):
            continue
        output([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", folder, wheel], 300)
        for path in folder.glob("*.whl"):
            with zipfile.ZipFile(path) as archive:
                for name in archive.namelist():
                    if re.search(r"/libcupti\.so\.\d+$", name):
                        (folder / name.rpartition("/")[2]).write_bytes(archive.read(name))
            path.unlink()
        if not list(folder.glob("libcupti.so.*")):
            check.skip(f"CUPTI to carry: {wheel}", "it cannot be fetched here")


def carried(check, major):
    """The path of a carried libcupti, or None."""
    return next(iter((check.build / "carried" / str(major)).glob("libcupti.so.*")), None)


def run_carried(check):
    run_newest(check)
    run_old(check)


def run_newest(check):
    """Checks C programs, the clock from both sides and a second client with CUPTI 13.5."""
    if check.sim:
        check.use("13.5: ", env={"SIM_FAULTS": f"version={NEWEST}"}, least=NEWEST)
    elif carried(check, 13):
        check.use("13.5: ", preload=[carried(check, 13)], least=NEWEST)
    else:
        check.skip("CUPTI 13.5", "none was carried here (--prepare where there is a network)")
        return
    jobs = [(programs.run_whole, name, few) for name, few, _ in programs.WHOLE if name in SOME and check.has(name)]
    if check.has("many"):
        jobs.append((programs.run_whole, "many", "--threads 1 --streams 1 --sync 1 --launches 500"))
    if check.has("second_client"):
        jobs.append((programs.run_client, "second_client"))
    try:
        check.together(jobs)
    finally:
        check.use()


def run_old(check):
    """Checks CUPTI 12.8 in a program without a CUDA runtime."""
    old = check.libraries[0] / "libcupti.so.12" if check.sim else carried(check, 12)
    if not old or not check.has("driver_only"):
        check.skip("CUPTI 12.8", "none was carried here (--prepare where there is a network)")
        return
    check.use("12.8: ", preload=[old], may_say=["CUPTI does not record CUDA_EVENT: CUPTI_ERROR_INVALID_KIND;"])
    try:
        programs.run_whole(check, "driver_only", "--launches 500")
    finally:
        check.use()
