# ns-2: one UDP flow of 800 Mb/s over a chain of ten links of 1 Gb/s and 1 ms, as `warpline bench` runs it.
#
#   ns chain.tcl SECONDS
lassign $argv seconds
set hops 10

remove-all-packet-headers
add-packet-header IP RTP
set sim [new Simulator]
$sim use-scheduler Calendar
set first [$sim node]
set last $first
for {set i 0} {$i < $hops} {incr i} {
    set next [$sim node]
    $sim duplex-link $last $next 1000Mb 1ms DropTail
    $sim queue-limit $last $next 1000
    set last $next
}
set udp [new Agent/UDP]
$udp set packetSize_ 1500
set sink [new Agent/LossMonitor]
$sim attach-agent $first $udp
$sim attach-agent $last $sink
$sim connect $udp $sink
set source [new Application/Traffic/CBR]
$source set packetSize_ 1500
$source set rate_ 800Mb
$source attach-agent $udp

proc finish {} {
    global sink hops seconds began
    set wall [expr {([clock clicks -milliseconds] - $began) / 1000.0}]
    puts "{\"wall_s\": $wall, \"packet_hops\": [expr {$hops * [$sink set npkts_]}], \"goodput_bps\": [expr {8.0 * [$sink set bytes_] / $seconds}]}"
    exit 0
}
$sim at 0.0 {set began [clock clicks -milliseconds]}
$sim at 0.0 "$source start"
$sim at $seconds finish
$sim run
