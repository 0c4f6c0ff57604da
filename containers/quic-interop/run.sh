#!/bin/bash
# The network simulator of the QUIC interop runner: SCENARIO says what the network does, eth0 leads to the client and eth1 to the server.
set -euo pipefail

: "${SCENARIO:?it names what the network does, such as: simple-p2p --delay=15ms --bandwidth=10Mbps --queue=25}"
logs=${LOGS:-/logs}
# The server is asked while this machine still has its own addresses.
if [ -n "${WAITFORSERVER:-}" ]; then
  python3 "$(dirname "$(readlink -f "$0")")/wait_for_quic.py" "$WAITFORSERVER"
fi
echo "Using scenario: $SCENARIO"
# The scenario's own hosts have the addresses by which the client and the server know the simulator. This machine's kernel must not answer for them, too, and
# least of all before: they would remember its MAC address.
for device in eth0 eth1; do
  ip address flush dev "$device"
done
warpline import --from quic-interop --force --out "$logs/scenario.toml" "$SCENARIO"
started=()
end() {
  kill -TERM "${started[@]}" 2>/dev/null || true
  wait
}
trap end EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
for side in "eth0 left" "eth1 right"; do
  read -r device name <<<"$side"
  dumpcap -q -i "$device" -s 0 -w "$logs/trace_node_$name.pcap" &
  started+=($!)
done
warpline run --force --out "$logs/run" "$logs/scenario.toml" &
started+=($!)
wait "${started[-1]}"
