"""The hosts: network namespaces of `transom lab`, each with a second link for its operator."""

import re
import subprocess
import threading
from pathlib import Path

import programs

HERE = Path(__file__).resolve().parent
LAB = "fleet"
# Of the range for measurements (RFC 2544), so that they meet nobody's addresses.
OPERATOR = "198.19.0.1"
OPERATORS_NETWORK = "198.19.0"
CUSTOMERS = 20
PREFIXES = {
    "fibre": "198.18.1",
    "cable": "198.18.2",
    "far": "198.18.3",
    "lossy": "198.18.4",
    "slow": "198.18.5",
}
# Each host of customers stands for those of one prefix, behind one link.
LINKS = {
    "fibre": "{ rtt_ms = 12 }",
    "cable": "{ rtt_ms = 25 }",
    "far": "{ rtt_ms = 80 }",
    # The bad path: every 25th packet towards these customers is lost.
    "lossy": "{ rtt_ms = 25, down = { loss = 0.04 } }",
    # Their path is as good as that of `cable`; their program reads slowly.
    "slow": "{ rtt_ms = 25 }",
}
# A file of the lab needs a flow; `lab shell` starts none.
EXPERIMENT = """\
title = "Hosts of a fleet and five networks of customers"
source = "make fleet-demo"
question = "Whose matter is it that a customer is slow?"
duration_s = 5
repeats = 1
record = false
[flows.none]
from = "web-1"
to = "fibre"
"""


def experiment(web):
    tables = [f"[hosts.{host}]\n" for host in web]
    tables += [f"[hosts.{network}]\nlink = {link}\n" for network, link in LINKS.items()]
    return EXPERIMENT + "".join(tables)


def namespace(host):
    return f"tx-{LAB}-{host}"


def inside(host):
    """Words that run a program in a host. `ip netns exec` would hide the cgroups from it."""
    return ["nsenter", f"--net=/run/netns/{namespace(host)}"]


def operators_address(host):
    """Where an operator reaches a host."""
    return f"{OPERATORS_NETWORK}.{100 + int(host.removeprefix('web-'))}"


def link(host):
    """The operator's end of its second link."""
    return f"fleet-{host}"


def remove_links():
    """A namespace that has lost its name may live on for minutes, and its links with it, as long as
    somebody holds a socket of it: an agent of the whole machine, say."""
    for device in Path("/sys/class/net").glob(link("web-*")):
        words = [programs.tool("ip", "iproute2"), "link", "delete", device.name]
        subprocess.run(words, stderr=subprocess.DEVNULL)


def ip(lines, host=None):
    words = [programs.tool("ip", "iproute2"), *(["-n", namespace(host)] if host else []), "-batch", "-"]
    done = subprocess.run(words, input="\n".join(lines) + "\n", capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"ip: {done.stderr.strip()}")


class Lab:
    """The hosts are up, and what the lab says is read."""

    def __init__(self, processes, web):
        self.web = web
        file = processes.folder / f"{LAB}.toml"
        file.write_text(experiment(web))
        words = [programs.transom("transom"), "lab", "shell", file]
        self.child = processes.start("lab", words, pipe=True, text=True)
        self.addresses = {}
        for line in self.child.stdout:
            found = re.match(r"  (\S+) +(10\.77\.0\.\d+) ", line)
            if found:
                self.addresses[found[1]] = found[2]
            if len(self.addresses) == len(web) + len(PREFIXES):
                break
        else:
            self.child.wait()
            raise RuntimeError(f"the lab did not come up: {processes.said('lab')}")
        # What else it says must find a reader.
        threading.Thread(target=self.child.stdout.read, daemon=True).start()
        self.give_customers_addresses()
        self.give_operator_links()

    def give_customers_addresses(self):
        for network, prefix in PREFIXES.items():
            # Each as an address of its own, without a route to the others of the prefix.
            each = range(1, CUSTOMERS + 1)
            ip([f"addr add {prefix}.{number}/32 dev eth0" for number in each], network)
        routes = [
            f"route add {prefix}.0/24 via {self.addresses[network]} dev eth0"
            for network, prefix in PREFIXES.items()
        ]
        for host in self.web:
            ip(routes, host)

    def give_operator_links(self):
        for host in self.web:
            ours, theirs = link(host), operators_address(host)
            ip([
                f"link add {ours} type veth peer name ops netns {namespace(host)}",
                f"addr add {OPERATOR} peer {theirs}/32 dev {ours}",
                f"link set {ours} up",
            ])
            ip([f"addr add {theirs} peer {OPERATOR}/32 dev ops", "link set ops up"], host)
