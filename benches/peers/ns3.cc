// ns-3: the workloads of `warpline bench`.
//
//   ns3 dumbbell FLOWS MBITS SECONDS
//   ns3 chain SECONDS
//
// NewReno with SACK, timestamps, PRR and delayed ACKs, 1500 bytes on the wire, round trip 50 ms, drop-tail queue of one
// bandwidth-delay product. No tracing, no traffic control layer, routes by nix vectors. Unlike the other simulators, ns-3 serialises
// real headers.

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/nix-vector-helper.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

using namespace ns3;

namespace {

constexpr uint16_t kPort = 9000;

// Point-to-point links with addresses of their own and without a traffic control layer.
class Network {
  public:
    Network() { m_addresses.SetBase("10.0.0.0", "255.255.255.252"); }

    void Install(const NodeContainer& nodes) {
        InternetStackHelper stack;
        stack.SetIpv6StackInstall(false);
        stack.SetRoutingHelper(Ipv4NixVectorHelper());
        stack.Install(nodes);
    }

    // Joins two nodes and returns the address of the second.
    Ipv4Address Join(Ptr<Node> a, Ptr<Node> b, double mbits, const char* delay, uint32_t limit) {
        PointToPointHelper link;
        link.SetDeviceAttribute("DataRate", DataRateValue(DataRate(static_cast<uint64_t>(mbits * 1e6))));
        link.SetChannelAttribute("Delay", StringValue(delay));
        link.SetQueue("ns3::DropTailQueue", "MaxSize", StringValue(std::to_string(limit) + "p"));
        NetDeviceContainer devices = link.Install(a, b);
        Ipv4InterfaceContainer interfaces = m_addresses.Assign(devices);
        m_addresses.NewNetwork();
        TrafficControlHelper().Uninstall(devices);
        return interfaces.GetAddress(1);
    }

  private:
    Ipv4AddressHelper m_addresses;
};

// Runs until then and prints one line of JSON. `hops` counts from the bytes that the sinks received.
template <typename Count>
void Measure(double seconds, const ApplicationContainer& sinks, Count hops) {
    Simulator::Stop(Seconds(seconds));
    const auto began = std::chrono::steady_clock::now();
    Simulator::Run();
    const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - began;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < sinks.GetN(); ++i) {
        bytes += DynamicCast<PacketSink>(sinks.Get(i))->GetTotalRx();
    }
    std::printf("{\"wall_s\": %.4f, \"packet_hops\": %.0f, \"goodput_bps\": %.0f}\n", wall.count(), hops(bytes), bytes * 8.0 / seconds);
    Simulator::Destroy();
}

void Dumbbell(uint32_t flows, double mbits, double seconds) {
    constexpr uint32_t kSegment = 1448;
    const double bdp = mbits * 1e6 * 0.050 / 8;
    const auto buffer = std::max<uint64_t>(256 * 1024, static_cast<uint64_t>(4 * bdp / flows));
    Config::SetDefault("ns3::TcpL4Protocol::SocketType", StringValue("ns3::TcpNewReno"));
    Config::SetDefault("ns3::TcpL4Protocol::RecoveryType", StringValue("ns3::TcpPrrRecovery"));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(kSegment));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(2));
    Config::SetDefault("ns3::TcpSocket::DelAckTimeout", TimeValue(MilliSeconds(100)));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(buffer));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(buffer));
    Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(MilliSeconds(200)));

    NodeContainer routers(2), left(flows), right(flows);
    Network network;
    for (const auto& nodes : {routers, left, right}) {
        network.Install(nodes);
    }
    network.Join(routers.Get(0), routers.Get(1), mbits, "15ms", static_cast<uint32_t>(std::ceil(bdp / 1500)));
    auto starts = CreateObject<UniformRandomVariable>();
    ApplicationContainer sinks;
    for (uint32_t i = 0; i < flows; ++i) {
        network.Join(left.Get(i), routers.Get(0), 10 * mbits, "5ms", 100000);
        const Ipv4Address to = network.Join(routers.Get(1), right.Get(i), 10 * mbits, "5ms", 100000);
        BulkSendHelper source("ns3::TcpSocketFactory", InetSocketAddress(to, kPort));
        source.SetAttribute("SendSize", UintegerValue(kSegment));
        source.Install(left.Get(i)).Start(Seconds(starts->GetValue(0, 1)));
        sinks.Add(PacketSinkHelper("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), kPort)).Install(right.Get(i)));
    }
    // Three links for each segment, and for each ACK of two segments. Dropped packets are not counted.
    Measure(seconds, sinks, [](uint64_t bytes) { return 4.5 * bytes / kSegment; });
}

void Chain(double seconds) {
    constexpr uint32_t kHops = 10, kPayload = 1472;
    NodeContainer nodes(kHops + 1);
    Network network;
    network.Install(nodes);
    Ipv4Address to;
    for (uint32_t i = 0; i < kHops; ++i) {
        to = network.Join(nodes.Get(i), nodes.Get(i + 1), 1000, "1ms", 1000);
    }
    OnOffHelper source("ns3::UdpSocketFactory", InetSocketAddress(to, kPort));
    source.SetConstantRate(DataRate(static_cast<uint64_t>(800e6 * kPayload / 1500)), kPayload);
    source.Install(nodes.Get(0)).Start(Seconds(0));
    PacketSinkHelper sink("ns3::UdpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), kPort));
    Measure(seconds, sink.Install(nodes.Get(kHops)), [](uint64_t bytes) { return 1.0 * kHops * bytes / kPayload; });
}

} // namespace

int main(int argc, char** argv) {
    const std::string kind = argc > 1 ? argv[1] : "";
    if (kind == "dumbbell" && argc == 5) {
        Dumbbell(std::strtoul(argv[2], nullptr, 10), std::strtod(argv[3], nullptr), std::strtod(argv[4], nullptr));
    } else if (kind == "chain" && argc == 3) {
        Chain(std::strtod(argv[2], nullptr));
    } else {
        std::fprintf(stderr, "usage: ns3 dumbbell FLOWS MBITS SECONDS | ns3 chain SECONDS\n");
        return 2;
    }
    return 0;
}
