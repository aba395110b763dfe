# SPDX-License-Identifier: Apache-2.0
"""The ten slowest tests of the last runs: slowest.py FILE..., which are the XML of libcheck and of pytest. What is no XML is left out."""

import sys
import xml.etree.ElementTree as xml

CHECK = "{http://check.sourceforge.net/ns}"


def durations(path):
    """(seconds, name) of each test in a file."""
    try:
        root = xml.parse(path).getroot()
    except (OSError, xml.ParseError):
        return
    for suite in root.iter(CHECK + "suite"):
        for test in suite.iter(CHECK + "test"):
            yield float(test.find(CHECK + "duration").text), f"unit {suite.find(CHECK + 'title').text}: {test.find(CHECK + 'id').text}"
    for test in root.iter("testcase"):
        yield float(test.get("time", 0)), f"{test.get('classname')}::{test.get('name')}"


if __name__ == "__main__":
    found = sorted((one for path in sys.argv[1:] for one in durations(path)), reverse=True)
    print(f"slowest of {len(found)} tests, {sum(seconds for seconds, _ in found):.0f} s in all:")
    for seconds, name in found[:10]:
        print(f"{seconds:8.1f} s  {name}")
