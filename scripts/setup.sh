#!/usr/bin/env bash
# Checks that everything that `make run`, `make python`, `make test`, `make test-mpi` or `make bench` needs is installed, and installs missing
# Debian packages.
#
# usage: scripts/setup.sh run|python|test|mpi|bench
#
# Rust must be installed, and Python for all but `run` and `mpi`. Debian packages are installed if this runs as root. Otherwise the command that
# installs them is printed, and the checks that need them are left out; with CI=true a missing package is a failure. `make run` does not install
# clang and libelf, which are large and which scenarios do not need. Without them the build has no TCP Nice for the running kernel, and says so.
set -euo pipefail

purpose=${1:?"usage: scripts/setup.sh run|python|test|mpi|bench"}
# Servers and nft are there, which is not on an ordinary user's path.
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

fail() {
    echo "error: $*" >&2
    exit 1
}

have() {
    command -v "$1" >/dev/null 2>&1
}

have cargo || fail "cargo is missing; install Rust from https://rustup.rs"

packages=()
have cc || packages+=(gcc libc6-dev)
needs_python() {
    have python3 || fail "python3 is missing; install Python 3.10 or later"
    python3 -c 'import ensurepip, venv' 2>/dev/null || packages+=(python3-venv)
}
case $purpose in
run) ;;
python) needs_python ;;
test)
    needs_python
    # Compilers for the example of CI.
    have go || packages+=(golang-go)
    have tshark || packages+=(tshark)
    # To build TCP Nice for the running kernel (Linux), and for its tests.
    if [[ $(uname -s) == Linux ]]; then
        have clang || packages+=(clang)
        have make || packages+=(make)
        have pkg-config || packages+=(pkg-config)
        [[ -e /usr/include/libelf.h ]] || packages+=(libelf-dev)
        [[ -e /usr/include/zlib.h ]] || packages+=(zlib1g-dev)
        have iperf3 || packages+=(iperf3)
    fi
    have chromium || have chromium-browser || have google-chrome || packages+=(chromium)
    # Real clients and servers for live networks.
    have ping || packages+=(iputils-ping)
    have traceroute || packages+=(traceroute)
    have curl || packages+=(curl)
    have iperf3 || packages+=(iperf3)
    have nginx || packages+=(nginx-light)
    have nft || packages+=(nftables)
    have pasta || packages+=(passt)
    # The kernel of guests.
    have linux.uml || [[ $(uname -m) != x86_64 ]] || packages+=(user-mode-linux)
    # Programs in guests (scenarios/programs).
    have rsync || packages+=(rsync)
    have ssh || packages+=(openssh-client)
    have sshd || packages+=(openssh-server)
    have dig || packages+=(bind9-dnsutils)
    have dnsmasq || packages+=(dnsmasq-base)
    have redis-server || packages+=(redis-server)
    have redis-benchmark || packages+=(redis-tools)
    have iptables-legacy || packages+=(iptables)
    have openssl || packages+=(openssl)
    # The TCP of 4.4BSD, for hosts with endpoint = "stack:bsd".
    pkg-config --exists slirp 2>/dev/null || packages+=(libslirp-dev libglib2.0-dev pkg-config)
    # SCTP, for hosts with endpoint = "stack:sctp".
    pkg-config --exists usrsctp 2>/dev/null || packages+=(libusrsctp-dev pkg-config)
    ;;
mpi)
    # Runs in several processes: the MPI library with its launcher, and libclang, which reads its headers for the bindings.
    have mpirun || packages+=(openmpi-bin)
    have mpicc || packages+=(libopenmpi-dev)
    have clang || packages+=(clang)
    ;;
bench)
    have python3 || fail "python3 is missing; install Python 3.10 or later"
    have ns || packages+=(ns2)
    have g++ || packages+=(g++)
    compgen -G '/usr/include/ns3*/ns3/core-module.h' >/dev/null || packages+=(libns3-dev)
    ;;
*) fail "unknown purpose $purpose; run, python, test, mpi or bench" ;;
esac

if ((${#packages[@]} == 0)); then
    exit 0
fi

install="apt-get update && apt-get install --yes --no-install-recommends ${packages[*]}"
if have apt-get && ((EUID == 0)); then
    echo "Installing: ${packages[*]}"
    export DEBIAN_FRONTEND=noninteractive
    log=$(mktemp)
    apt-get update >"$log" 2>&1 || tail -n 20 "$log" >&2
    # For one package that there is not, apt installs none of the others.
    there=() absent=()
    for package in "${packages[@]}"; do
        if [[ -n $(apt-cache madison "$package") ]]; then there+=("$package"); else absent+=("$package"); fi
    done
    if ((${#there[@]} == 0)) || apt-get install --yes --no-install-recommends "${there[@]}" >>"$log" 2>&1; then
        ((${#absent[@]} > 0)) || { rm -f "$log" && exit 0; }
        problem="this system has no such packages: ${absent[*]}"
    else
        tail -n 20 "$log" >&2
        problem="these packages could not be installed: ${packages[*]}"
    fi
    rm -f "$log"
else
    problem="these packages are missing: ${packages[*]}
  on Debian or Ubuntu:  sudo sh -c '$install'"
fi

if [[ ${CI:-} == true ]]; then
    fail "$problem"
fi
have cc || fail "$problem"
echo "notice: $problem" >&2
echo "notice: the checks and measurements that need them are left out" >&2
