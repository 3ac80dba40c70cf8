# SPDX-License-Identifier: GPL-2.0-only
"""An admin's way with targetcli and targetctl: create, export, save, clear, restore, delete.

First without our registration: so this shows what it mends.
"""

import json
import re
import subprocess
from pathlib import Path

import rtslib_host as host
from locklab import base, blk, iscsi, lio, media, ram, wire

NVRAM = "lab:nv"
SERIAL = "6c6f636b-7374-6570-0000-000000000002"
data, log, other = ram.Ram("data", 32), ram.Ram("log", 16), ram.Ram("other", 16)
base.run(host.DCD_TOOL, "format", "--data", data.node, "--log", log.node,
         "--nvram", media.nvram("nv", 1024))  # fmt: skip
host.prepare()
link = wire.Wire()


def written(node: str, tag: str) -> None:
    with blk.Disk(node) as disk:
        disk.write(2048, blk.pattern(tag, 64))


def there(node: str, tag: str) -> None:
    with blk.Disk(node, write=False) as disk:
        base.expect(disk.read(2048, 64) == blk.pattern(tag, 64), f"{tag} isn't on {node}")


def serial(node: str) -> str:
    page = Path(f"/sys/block/{Path(node).name}/device/vpd_pg80").read_bytes()
    return page[4:].decode().strip("\0 ")


def restore(*words: str) -> str:
    return host.good(*words, netns=wire.NETNS)  # the portal is there


base.step("without the registration: a dcd object breaks targetcli and targetctl")
host.targetcli("ls")
by_hand = lio.dcd("hand", data.node, log.node, NVRAM, "nvram_bytes=1048576")
broken = host.program("targetcli", "ls")
base.expect(broken.rc != 0 and "'dcd'" in broken.text, f"targetcli ls: {broken}")
broken = host.program("targetctl", "save")
base.expect(broken.rc != 0 and "KeyError: 'dcd'" in broken.text, f"targetctl save: {broken}")
base.expect(not host.SAVED.exists(), "something was saved")

base.step("with it: they know an object that somebody else has made")
host.install()
listed = host.targetcli("ls")
base.expect(re.search(r"o- dcd \.+ \[Storage Objects: 1\]", listed), listed)
line = "[/dev/data, log /dev/log, nvram lab:nv (32.0MiB) write-thru deactivated]"
base.expect(re.search(rf"o- hand \.+ {re.escape(line)}", listed), listed)
host.targetcli("/backstores/dcd", "delete", "hand")
base.equal((host.objects(), host.hbas()), ([], []), "left after delete")

base.step("create, beside a backstore of another kind; export, log in")
tuned = {"index_bytes": 2 << 20, "read_cache_bytes": 0, "busy_after_ms": 5000,
         "scrub_kib": 64, "destage_idle_ms": 700, "destage_low": 0, "destage_high": 60,
         "destage_depth": 8, "destage_batch_kib": 512}  # fmt: skip
host.create("m", data=data.node, log=log.node, nvram=NVRAM, nvram_bytes="1M", wwn=SERIAL,
            **(tuned | {"index_bytes": "2M"}))  # fmt: skip
host.targetcli("/backstores/block", "create", "name=b", f"dev={other.node}")
host.export("/backstores/dcd/m")
session = iscsi.Session()
node = session.login()
base.equal(serial(node), SERIAL, "serial number of the LUN")
written(node, "first")
listed = host.targetcli("ls")
base.expect(re.search(r"o- m \.+ \[.* write-thru activated\]", listed), listed)
base.expect(re.search(r"o- lun0 \.+ \[dcd/m \(/dev/data\)", listed), listed)
info = host.targetcli("/backstores/dcd/m", "info")
for text in ("data: /dev/data", "nvram_bytes: 1048576", f"wwn: {SERIAL}", "log ok, data ok"):
    base.expect(text in info, f"info doesn't tell {text!r}: {info}")
base.expect(re.search(r"writes [1-9]", info), f"info doesn't count: {info}")

base.step("a reservation that asks to outlive a power loss is taken (the drop-in made its place)")
(unit,) = host.DROP_IN.glob("*.conf")
(make,) = re.findall(r"^ExecStartPre=(mkdir .*)$", unit.read_text(), re.M)
base.run(*make.split())
base.run("sg_persist", "--out", "--register", "--param-sark=abc", "--param-aptpl", node)
base.run("sg_persist", "--out", "--reserve", "--param-rk=abc", "--prout-type=5", node)
held = base.run("sg_persist", "--in", "--read-reservation", node)
base.expect("Key=0xabc" in held, held)

base.step("save")
host.targetcli("saveconfig")
saved = host.saved()
(found,) = (so for so in saved["storage_objects"] if so["plugin"] == "dcd")
control = re.findall(r"data=.*", (host.CORE / "dcd_0/m/info").read_text())
keys = ("name", "data", "log", "nvram", "nvram_bytes", "wwn", *tuned)
told = {key: found[key] for key in keys}
want = tuned | {"name": "m", "data": "/dev/data", "log": "/dev/log", "nvram": NVRAM,
                "nvram_bytes": 1048576, "wwn": SERIAL}  # fmt: skip
base.equal(told, want, "saved")

base.step("clear, restore: the same serial number, the same contents")
session.logout()
host.targetcli("clearconfig", "confirm=True")
base.equal((host.objects(), host.hbas()), ([], []), "left after clearconfig")
said = restore("targetcli", "restoreconfig")
base.expect("Configuration restored" in said, said)
base.equal(host.objects(), ["dcd_0/m", "iblock_1/b"], "restored")
again = re.findall(r"data=.*", (host.CORE / "dcd_0/m/info").read_text())
base.equal(again, control, "every setting, restored")
node = session.login()
base.equal(serial(node), SERIAL, "serial number of the LUN, restored")
base.equal(base.run("sg_persist", "--in", "--read-reservation", node).split("PR")[-1],
           held.split("PR")[-1], "the reservation, restored")  # fmt: skip
there(node, "first")
written(node, "second")
session.logout()
twice = host.program("targetcli", "restoreconfig")
base.expect(twice.rc != 0 and "exist" in twice.text, f"restored over what exists: {twice}")

base.step("targetctl: what it saves, clears and restores is the same")
copy = Path("/tmp/copy.json")
host.good("targetctl", "save", str(copy))
base.equal(host.saved(copy), saved, "targetctl save")
# What other versions of rtslib add or leave out.
for so in saved["storage_objects"]:
    if so["plugin"] == "dcd":
        so["exclusive"] = True
        del so["write_back"]
copy.write_text(json.dumps(saved))
host.good("targetctl", "clear")
base.equal(host.objects(), [], "left after targetctl clear")
base.equal(restore("targetctl", "restore", str(copy)), "", "complaints of targetctl restore")
node = session.login()
there(node, "second")
session.logout()

base.step("a disk is missing when the configuration is restored: told, the rest is restored")
host.good("targetctl", "clear")
text = copy.read_text()
copy.write_text(text.replace('"/dev/log"', '"/dev/gone"'))
said = restore("targetctl", "restore", str(copy))
base.expect("log=/dev/gone: No such file or directory, skipped" in said, said)
base.equal(host.objects(), ["iblock_0/b"], "restored without the disk")
copy.write_text(text)
restore("targetctl", "restore", str(copy))

base.step("without wwn=, the serial number is the set's uuid; such an object is restored too")
host.good("targetctl", "clear")
first = host.set_uuid(log.node)
host.create("m", data=data.node, log=log.node, nvram=NVRAM, nvram_bytes="1M")
host.targetcli("/backstores/block", "create", "name=b", f"dev={other.node}")
info = host.targetcli("/backstores/dcd/m", "info")
base.expect(f"wwn: {first}" in info, f"info doesn't tell wwn {first}: {info}")
own = Path("/tmp/own.json")
host.good("targetctl", "save", str(own))
host.good("targetctl", "clear")
base.equal(restore("targetctl", "restore", str(own)), "", "complaints of targetctl restore")
base.equal(len(host.objects()), 2, "restored")

base.step("the set is formatted anew: it isn't restored as the disk that it was")
host.good("targetctl", "clear")
base.run(host.DCD_TOOL, "format", "--force", "--data", data.node, "--log", log.node,
         "--nvram", "/dev/mapper/nv")  # fmt: skip
second = host.set_uuid(log.node)
said = restore("targetctl", "restore", str(own))
base.expect(f"wwn={first}: " in said and second in said and "skipped" in said, said)
base.equal(host.objects(), ["iblock_0/b"], "restored without the set")
# A serial number that is no set's says nothing about the set.
host.good("targetctl", "clear")
base.equal(restore("targetctl", "restore", str(copy)), "", "complaints of targetctl restore")

base.step("leaving an interactive targetcli saves")
host.SAVED.unlink()
host.good("targetcli", stdin="cd /backstores/dcd\nls\nexit\n")
base.expect('"plugin": "dcd"' in host.SAVED.read_text(), "nothing saved at exit")

base.step("the daemon knows it too")
daemon = subprocess.Popen(
    ["targetclid"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
)
base.until(lambda: "targetclid.sock" in Path("/proc/net/unix").read_text(), "targetclid")
said = host.daemon("/backstores/dcd ls")
base.expect("/dev/data, log /dev/log" in said, said)
daemon.kill()
daemon.wait()

base.step("delete takes the LUN along; the saved entry goes when asked for")
host.targetcli("/backstores/dcd", "delete", "m", "save=True")
base.equal(host.objects(), ["iblock_1/b"], "left after delete")
base.expect('"plugin": "dcd"' not in host.SAVED.read_text(), "still saved")
host.targetcli("clearconfig", "confirm=True")
base.equal((host.objects(), host.hbas()), ([], []), "left at the end")
# Nothing holds the disks any more.
lio.dcd("hand", data.node, log.node, NVRAM, "nvram_bytes=1048576").remove()
session.close()
for disk in (data, log, other):
    disk.remove()
base.step("done")
