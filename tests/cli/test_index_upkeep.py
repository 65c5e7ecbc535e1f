# SPDX-License-Identifier: Apache-2.0
"""scbf index: opened by several processes, checked, damaged, killed, and on disks that are full or
read-only."""

import contextlib
import json
import os
import random
import select
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

from index_support import IndexTest, as_csv, people
from support import COMMAND, CORRUPT, INPUT_OUTPUT, NOTHING_FOUND, OK, REPORT_LOST, USAGE


class Open(IndexTest):
    def test_while_another_process_writes(self):
        self.create(name="it's open")
        self.scbf("index", "put", "it's open", "id=a", "town=Ulm")
        os.mkfifo(self.path("rows.csv"))
        writer = self.start("index", "load", "it's open", "rows.csv")
        # Opening waits until the writer reads, and it has opened the index by then.
        with open(self.path("rows.csv"), "w") as rows:
            rows.write("id,name,town,hobbies\n")
            for words in (["put", "it's open", "id=b"], ["delete", "it's open", "a"],
                          ["checkpoint", "it's open"], ["load", "it's open", "-"]):
                self.refused("index", *words, code=INPUT_OUTPUT,
                             mentions=[r"'it\'s open': another process has it open", "index get"])
                self.assertNotIn("temporarily", self.err)
            self.assertIn(b"Ulm", self.scbf("index", "get", "it's open", "a"))
        self.assertEqual(writer.wait(100), OK)
        self.scbf("index", "put", "it's open", "id=b")


class Check(IndexTest):
    def test_one_of_each(self):
        self.create()
        self.scbf("index", "put", "i", "id=a", "town=Ulm")
        self.assertIn(b"ok: 1 row, 1 value, 1 entry of", self.scbf("index", "check", "i"))
        self.scbf("index", "checkpoint", "i")
        os.remove(self.filters()[0])
        self.scbf("index", "check", "i", code=CORRUPT)
        self.assertIn("1 region without a filter to trust", self.err)
        self.assertIn(b"; 1 filter rebuilt", self.scbf("index", "check", "i", "--repair"))
        with open("/dev/full", "wb") as full:
            for verb, code in ((["check", "i"], INPUT_OUTPUT), (["check", "i", "--repair"], INPUT_OUTPUT),
                               (["checkpoint", "i"], REPORT_LOST), (["checkpoint", "i", "--json"], REPORT_LOST)):
                self.scbf("index", *verb, stdout=full, code=code)
            os.remove(self.filters()[0])
            self.scbf("index", "check", "i", "--repair", stdout=full, code=REPORT_LOST)
            self.assertIn("'i' is changed already: do not repeat the command", self.err)
        self.scbf("index", "check", "i")

    def test_ok_and_checkpoint(self):
        self.people(300)
        report = self.scbf_json("index", "check", "i", "--progress", "always")
        self.assertKeys(report, "ok rows postings values problem_count problems asked_always "
                                "rebuilt recovery seconds")
        self.assertEqual((report["rows"], report["ok"], report["problems"]), (300, True, []))
        self.assertIn("300 rows", self.err)
        self.assertIn(b"ok: 300 rows", self.scbf("index", "check", "i"))
        self.assertKeys(self.scbf_json("index", "checkpoint", "i"), "index seconds")
        self.scbf("index", "checkpoint", "i")
        for line in (b"300", b"key", b"town, hobbies"):
            self.assertIn(line, self.scbf("index", "stats", "i"))

    def filters(self):
        return sorted(os.path.join(folder, name)
                      for folder, _, names in os.walk(self.path("i")) for name in names
                      if name.endswith(".scbf"))

    def test_damaged_and_missing_filters(self):
        self.people(400, regions=4)
        files = self.filters()
        self.assertEqual(len(files), 4)
        os.remove(files[0])
        with open(files[1], "r+b") as file:
            file.seek(4100)
            byte = file.read(1)
            file.seek(4100)
            file.write(bytes([byte[0] ^ 1]))
        for _ in range(2):  # check does not repair by itself
            self.scbf("index", "check", "i", code=CORRUPT)
            self.assertIn("2 regions without a filter to trust", self.err)
            self.assertIn("--repair", self.err)
        process = self.run_raw("index", "check", "i", "--json")
        self.assertEqual(process.returncode, CORRUPT)
        report = json.loads(process.out)
        self.assertEqual((report["ok"], report["asked_always"]), (False, 2))
        report = self.scbf_json("index", "check", "i", "--repair")
        self.assertEqual((report["ok"], report["rebuilt"]), (True, 2))
        report = self.scbf_json("index", "check", "i")
        self.assertEqual((report["ok"], report["recovery"]["rebuilt"]), (True, 0))
        self.assertEqual(len(self.rows("query", "i", "town=town-1")), 100)

    def test_other_verbs_mend_by_themselves_and_say_so(self):
        self.people(400, regions=4)
        os.remove(self.filters()[2])
        self.assertEqual(len(self.rows("query", "i", "town=town-1")), 100)
        self.assertIn("filters of 1 of 4 regions made anew, in memory only", self.err)
        self.assertEqual(len(self.filters()), 3)
        self.scbf("index", "checkpoint", "i")
        self.assertIn("filters of 1 of 4 regions made anew: ", self.err)
        self.assertSound()

    def test_one_process_writes_and_others_read(self):
        self.create()
        holder = self.start("index", "load", "i", "-", "--progress", "always",
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        # The progress line is drawn when a row arrives, but not in the first tenth of a second. So
        # rows are sent one by one until it appears.
        lines = iter(as_csv(people(3000)).encode().splitlines(keepends=True))
        said = b""
        while b"loading" not in said:
            if select.select([holder.stderr], [], [], 0.02)[0]:
                said += (more := holder.stderr.read1(4096))
                self.assertTrue(more, said)
            else:
                holder.stdin.write(next(lines))
                holder.stdin.flush()
        self.scbf("index", "put", "i", "id=x", code=INPUT_OUTPUT)
        self.assertEqual(self.count(), 0)
        self.scbf("index", "query", "i", "town=town-1", code=NOTHING_FOUND)
        self.assertTrue(self.scbf_json("index", "check", "i")["read_only"])
        self.scbf("index", "check", "i", "--repair", code=INPUT_OUTPUT)
        holder.communicate(b"".join(lines), timeout=100)
        self.assertEqual(holder.returncode, OK)
        self.assertEqual(self.count(), 3000)

    def bytes(self):
        """Total size of the index's files. Some may vanish while they are counted."""
        total = 0
        for folder, _, names in os.walk(self.path("i")):
            for name in names:
                with contextlib.suppress(FileNotFoundError):
                    total += os.path.getsize(os.path.join(folder, name))
        return total

    def test_killed_while_loading(self):
        rows = people(50_000)
        random.Random(5).shuffle(rows)
        self.write("people.csv", as_csv(rows))
        killed = partly = 0
        self.create("--servers", 4)
        self.write("first.csv", as_csv(rows[:2000]))
        self.scbf("index", "load", "i", "first.csv", "--regions", 8)
        for written in (150_000, 1_200_000, 2_400_000):
            before = self.bytes()
            process = self.start("index", "load", "i", "people.csv", stdout=subprocess.DEVNULL)
            while self.bytes() < before + written and process.poll() is None:
                time.sleep(0.005)
            process.send_signal(signal.SIGKILL)
            killed += process.wait() == -signal.SIGKILL
            report = self.scbf_json("index", "check", "i")
            self.assertTrue(report["ok"], report)
            self.assertGreaterEqual(report["rows"], 2000)
            partly += 2000 < report["rows"] < 50_000
            # Rows are complete: each is found by its key and by its values.
            for row in rows[:3]:
                self.assertEqual(self.rows("get", "i", row[0]), [row])
                keys = [r[0] for r in self.rows("query", "i", f"town={row[2]}", "--keys")]
                self.assertIn(row[0], keys)
        self.assertGreater(killed, 0)
        self.assertGreater(partly, 0)
        self.scbf("index", "load", "i", "people.csv")
        self.assertEqual(self.count(), 50_000)
        self.assertSound()


def in_mount(options, script):
    """Commands of a shell that run it with $m, a folder of a file system mounted for them alone."""
    tidy = "m=$(mktemp -d); trap 'cd /; umount -l $m && rmdir $m' EXIT"
    return ["unshare", "-m", "sh", "-ec", f"{tidy}; {options}\n{script}"]


CAN_MOUNT = subprocess.run(in_mount("mount -t tmpfs -o size=1m none $m", "true"),
                           capture_output=True).returncode == 0 if shutil.which("unshare") else False


class OneOfEverything(IndexTest):
    def test_is_not_called_several(self):
        self.create("--servers", 1, "--region-values", 1)
        self.write("one.csv", as_csv([["a", "Ann", "Ulm", ""]]))
        self.write("towns", "Ulm\n")
        self.write("nowhere", "Bonn\n")
        for code, *arguments in (
                (OK, "load", "i", "one.csv", "--regions", 1), (OK, "load", "i", "one.csv"),
                (OK, "get", "i", "a"), (OK, "query", "i", "town=Ulm"), (NOTHING_FOUND, "query", "i", "town=Bonn"),
                (OK, "query", "i", "town=Ulm", "--limit", 1),
                (OK, "query", "i", "--batch", "towns", "--column", "town"),
                (NOTHING_FOUND, "query", "i", "--batch", "nowhere", "--column", "town"),
                (OK, "stats", "i"), (OK, "regions", "i"), (OK, "check", "i"), (OK, "checkpoint", "i"),
                (OK, "export", "i", "-o", "out.csv"), (OK, "backup", "i", "copy"),
                (OK, "put", "i", "id=a", "town=Oslo"), (OK, "put", "i", "id=b", "town=Rome"),
                (OK, "delete", "i", "b"), (OK, "replan", "i", "--dry-run"), (OK, "replan", "i"),
                (OK, "drop-column", "i", "town"), (OK, "add-column", "i", "town"),
                (USAGE, "load", "i", "one.csv", "--regions", 2), (USAGE, "split", "i", 0),
                (USAGE, "merge", "i", 0, 1)):
            self.assertSingulars("index", *arguments, code=code)
        (saved,) = os.listdir(self.path("i/filters"))
        os.unlink(self.path(f"i/filters/{saved}"))
        self.assertSingulars("index", "stats", "i")  # "filters of 1 of 1 region made anew"


class Disks(IndexTest):
    READING = ("get i id-000003", "query i town=town-0", "stats i", "regions i", "check i", "export i")

    @unittest.skipUnless(CAN_MOUNT, "a file system can only be mounted by root")
    def test_read_only_mount(self):
        self.people(400)
        script = "mount --bind . $m; mount -o remount,bind,ro $m; cd $m"
        for verb in self.READING:
            subprocess.run(in_mount(script, f"{COMMAND} index {verb}"), cwd=self.folder, check=True,
                           capture_output=True)
        with tempfile.TemporaryDirectory() as elsewhere:
            subprocess.run(in_mount(script, f"{COMMAND} index backup i {elsewhere}/copy"),
                           cwd=self.folder, check=True, capture_output=True)
            self.assertEqual(self.count(f"{elsewhere}/copy"), 400)
        process = subprocess.run(in_mount(script, f"{COMMAND} index put i id=1"), cwd=self.folder,
                                 capture_output=True, text=True)
        self.assertEqual(process.returncode, INPUT_OUTPUT)
        self.assertIn("Read-only file system", process.stderr)

    def test_without_permission_to_write(self):
        self.people(400)
        everything = [self.folder] + [os.path.join(folder, name)
                                      for folder, folders, files in os.walk(self.folder)
                                      for name in folders + files]
        for path in everything:
            os.chmod(path, 0o555)
        self.addCleanup(lambda: [os.chmod(path, 0o755) for path in everything])
        other = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}
        elsewhere = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, elsewhere)
        os.chmod(elsewhere, 0o777)
        for verb in ("put i id=1", *self.READING, f"backup i {elsewhere}/copy"):
            try:
                process = subprocess.run([COMMAND, "index", *verb.split()], cwd=self.folder,
                                         capture_output=True, text=True, **other)
            except PermissionError as error:
                self.skipTest(f"no other user can run the command: {error}")
            self.assertEqual(process.returncode, INPUT_OUTPUT if "put" in verb else OK,
                             process.stderr)
        self.assertEqual(self.count(f"{elsewhere}/copy"), 400)

    @unittest.skipUnless(CAN_MOUNT, "a file system can only be mounted by root")
    def test_full_disk(self):
        names = random.Random(1)  # which do not compress
        rows = [[f"{i * 7919 % 10**9:09}", names.randbytes(100).hex(), f"town-{i % 999}", ""]
                for i in range(200_000)]
        self.write("first.csv", as_csv(rows[:1000]))
        self.write("people.csv", as_csv(rows))
        index = f"{COMMAND} index"
        process = subprocess.run(in_mount("mount -t tmpfs -o size=16m none $m", f"""
            {index} create $m/i --key id --columns id,name,town,hobbies --index town
            {index} load $m/i first.csv
            set +e
            {index} load $m/i people.csv; echo loaded $?
            cat /dev/zero > $m/fill
            {index} put $m/i id=x; echo put $?
            {index} get $m/i 000000000 >/dev/null; echo got $?
            {index} query $m/i town=town-5 --limit 1 >/dev/null; echo queried $?
            {index} check $m/i >/dev/null; echo checked $?
            rm $m/fill; mount -o remount,size=256m $m
            {index} load $m/i people.csv >/dev/null; echo loaded $?
            {index} check $m/i; ls $m/i/store"""), cwd=self.folder, capture_output=True, text=True)
        lines = process.stdout.splitlines()
        self.assertEqual([line for line in lines if line.split()[0] in
                          ("loaded", "put", "got", "queried", "checked")],
                         ["loaded 3", "put 3", "got 0", "queried 0", "checked 0", "loaded 0"],
                         process.stderr)
        self.assertIn("ok: 200,000 rows", process.stdout)
        self.assertIn("No space left on device", process.stderr)
        self.assertFalse([line for line in lines if line.startswith("LOG")])
