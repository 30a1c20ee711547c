# SPDX-License-Identifier: BSD-2-Clause
"""What the programs about the Python module share: the domain that they are run for, what has to be as it was
when a case ends, and a line for each case in the form that the other tests have."""

import gc
import os
import sys
import unittest

import hmreg

DOMAIN = os.environ.get("HMREG_TEST_DOMAIN") or None


class Result(unittest.TestResult):
    def _line(self, word, test, text=""):
        print("[%s] %s%s" % (word, test.id().split(".")[-1], text), flush=True)

    def addSuccess(self, test):
        self._line("       OK ", test)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self._line("  SKIPPED ", test, ": " + reason)

    def addError(self, test, err):
        super().addError(test, err)
        self._failed(test, self.errors)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self._failed(test, self.failures)

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            print(subtest, file=sys.stderr)
            self._failed(test, self.failures if issubclass(err[0], test.failureException) else self.errors)

    def _failed(self, test, said):
        print(said[-1][1], file=sys.stderr)
        self._line("  FAILED  ", test)


def main():
    tests = unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"])
    result = Result()
    tests.run(result)
    if result.testsRun == 0:
        print("no test was run", file=sys.stderr)
        sys.exit(1)
    sys.exit(0 if result.wasSuccessful() else 1)


def file_descriptors():
    return len(os.listdir("/proc/self/fd"))


class Case(unittest.TestCase):
    """domain: open, and has to have no region and no endpoint but its own when the case ends."""

    HMEM = False

    @classmethod
    def setUpClass(cls):
        # what the library keeps from the first domain on: a device, a driver
        hmreg.open(DOMAIN, hmem=cls.HMEM).close()

    def setUp(self):
        gc.collect()
        self.before = file_descriptors()
        self.domain = hmreg.open(DOMAIN, hmem=self.HMEM)

    def tearDown(self):
        gc.collect()
        if not self.domain.closed:
            stats = self.domain.stats()
            self.domain.__exit__()
            self.assertEqual([stats["regions"], stats["registered_bytes"]], [0, 0], "regions are left")
        self.assertEqual(file_descriptors(), self.before)

    def pair(self):
        """An endpoint, and the peer that it is for itself."""
        endpoint = self.domain.endpoint()
        return endpoint, endpoint.connect(endpoint.address)

    def refused(self, name, words, call, *arguments, **named):
        """The call raises hmreg.Error of this name, and says why."""
        with self.assertRaises(hmreg.Error) as caught:
            call(*arguments, **named)
        self.assertEqual(caught.exception.name, name)
        self.assertIn(words, str(caught.exception))
        return caught.exception
