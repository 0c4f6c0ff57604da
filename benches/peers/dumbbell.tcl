# ns-2: FLOWS long-lived TCP flows over a dumbbell, as `warpline bench` runs them.
#
#   ns dumbbell.tcl FLOWS MBITS SECONDS
#
# Sack1 with timestamps and delayed ACKs, 1500 bytes on the wire, round trip 50 ms (5 + 15 + 5 ms each way), access links ten
# times as fast as the bottleneck, drop-tail queue of one bandwidth-delay product. No tracing, no unused packet headers, the
# calendar event queue, static routes: the fastest settings of ns-2 that we know.
lassign $argv flows mbits seconds

remove-all-packet-headers
add-packet-header IP TCP Flags
set sim [new Simulator]
$sim use-scheduler Calendar
$sim rtproto Manual

# 1450 + 40 of headers + 10 of timestamps make the packet.
Agent/TCP set packetSize_ 1450
Agent/TCP set timestamps_ true
Agent/TCP set window_ 100000
Agent/TCP set windowInit_ 10
Agent/TCP set windowInitOption_ 1
Agent/TCPSink set packetSize_ 40
Agent/TCPSink set ts_echo_rfc1323_ true

# A link in both directions, with large queues unless a limit is given.
proc join_nodes {a b mbits delay {limit 100000}} {
    global sim
    $sim duplex-link $a $b ${mbits}Mb $delay DropTail
    $sim queue-limit $a $b $limit
    $sim queue-limit $b $a 100000
}
proc default_route {from to} { [$from get-module Manual] add-route-to-adj-node -default $to }
proc route {from to} { [$from get-module Manual] add-route-to-adj-node $to }

set near [$sim node]
set far [$sim node]
join_nodes $near $far $mbits 15ms [expr {int(ceil($mbits * 1e6 * 0.050 / 8 / 1500))}]
set starts [new RNG]
$starts seed 1
for {set i 0} {$i < $flows} {incr i} {
    set left [$sim node]
    set right [$sim node]
    join_nodes $left $near [expr {10 * $mbits}] 5ms
    join_nodes $far $right [expr {10 * $mbits}] 5ms
    default_route $left $near
    default_route $right $far
    route $near $left
    route $far $right
    set sender($i) [new Agent/TCP/Sack1]
    set sink($i) [new Agent/TCPSink/Sack1/DelAck]
    $sim attach-agent $left $sender($i)
    $sim attach-agent $right $sink($i)
    $sim connect $sender($i) $sink($i)
    set source [new Application/FTP]
    $source attach-agent $sender($i)
    $sim at [$starts uniform 0 1] "$source start"
}
default_route $near $far
default_route $far $near

proc finish {} {
    global flows seconds sender sink began
    set wall [expr {([clock clicks -milliseconds] - $began) / 1000.0}]
    set data 0; set acks 0; set again 0; set bytes 0
    for {set i 0} {$i < $flows} {incr i} {
        incr data [$sender($i) set ndatapack_]
        incr acks [$sender($i) set nackpack_]
        incr again [$sender($i) set nrexmitpack_]
        set bytes [expr {$bytes + [$sink($i) set bytes_]}]
    }
    # Data and ACKs cross three links each. A packet dropped at the bottleneck (and sent again) crossed one.
    puts "{\"wall_s\": $wall, \"packet_hops\": [expr {3 * ($data + $acks) - 2 * $again}], \"goodput_bps\": [expr {8.0 * $bytes / $seconds}]}"
    exit 0
}
$sim at 0.0 {set began [clock clicks -milliseconds]}
$sim at $seconds finish
$sim run
