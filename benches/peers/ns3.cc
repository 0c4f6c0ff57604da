// ns-3: the workloads of `warpline bench`.
//
//   ns3 dumbbell FLOWS MBITS SECONDS
//   ns3 chain SECONDS
//   ns3 fat-tree K SECONDS
//
// NewReno with SACK, timestamps, PRR and delayed ACKs, 1500 bytes on the wire, round trip 50 ms, drop-tail queue of one
// bandwidth-delay product. No tracing, no traffic control layer, routes by nix vectors. Unlike the other simulators, ns-3 serialises
// real headers.
//
// The fat-tree has 10 Gbit/s and 1 us on each link, a permutation of long flows with ECN, and switches whose RED queues mark what finds more than
// 65 packets. ns-3 has no equal-cost multipath by flow that is quick in a large network, so its routes are computed here: each switch takes
// the upward link that its hash of both addresses says.

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
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <unordered_map>
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

// Routes of a fat-tree by arithmetic: a node knows by which interface a host is reached from it, and which interfaces lead up.
class FatTreeRouting : public Ipv4RoutingProtocol {
  public:
    static TypeId GetTypeId() {
        static TypeId id = TypeId("warpline::FatTreeRouting").SetParent<Ipv4RoutingProtocol>().AddConstructor<FatTreeRouting>();
        return id;
    }

    // The hosts by address, shared by all nodes.
    static std::unordered_map<uint32_t, uint32_t> hosts;
    // The interface that leads down to a host; 0 if it is not below.
    std::function<uint32_t(uint32_t)> down = [](uint32_t) { return 0; };
    std::vector<uint32_t> up;

    Ptr<Ipv4Route> RouteOutput(Ptr<Packet>, const Ipv4Header& header, Ptr<NetDevice>, Socket::SocketErrno& error) override {
        error = Socket::ERROR_NOTERROR;
        return Route(header);
    }

    bool RouteInput(Ptr<const Packet> packet, const Ipv4Header& header, Ptr<const NetDevice> device, UnicastForwardCallback forward,
                    MulticastForwardCallback, LocalDeliverCallback deliver, ErrorCallback) override {
        const int32_t interface = m_ipv4->GetInterfaceForDevice(device);
        if (m_ipv4->IsDestinationAddress(header.GetDestination(), interface)) {
            deliver(packet, header, interface);
        } else {
            forward(Route(header), packet, header);
        }
        return true;
    }

    void NotifyInterfaceUp(uint32_t) override {}
    void NotifyInterfaceDown(uint32_t) override {}
    void NotifyAddAddress(uint32_t, Ipv4InterfaceAddress) override {}
    void NotifyRemoveAddress(uint32_t, Ipv4InterfaceAddress) override {}
    void SetIpv4(Ptr<Ipv4> ipv4) override { m_ipv4 = ipv4; }
    void PrintRoutingTable(Ptr<OutputStreamWrapper>, Time::Unit) const override {}

  private:
    Ptr<Ipv4Route> Route(const Ipv4Header& header) const {
        uint32_t interface = down(hosts.at(header.GetDestination().Get()));
        if (interface == 0) {
            uint64_t hash = (uint64_t{header.GetSource().Get()} << 32 | header.GetDestination().Get()) ^
                            (m_ipv4->GetObject<Node>()->GetId() * 0x9e3779b97f4a7c15);
            hash = (hash ^ hash >> 30) * 0xbf58476d1ce4e5b9;
            hash = (hash ^ hash >> 27) * 0x94d049bb133111eb;
            interface = up[(hash ^ hash >> 31) % up.size()];
        }
        Ptr<Ipv4Route> route = Create<Ipv4Route>();
        route->SetDestination(header.GetDestination());
        route->SetSource(m_ipv4->GetAddress(interface, 0).GetLocal());
        route->SetGateway(header.GetDestination());
        route->SetOutputDevice(m_ipv4->GetNetDevice(interface));
        return route;
    }

    Ptr<Ipv4> m_ipv4;
};

std::unordered_map<uint32_t, uint32_t> FatTreeRouting::hosts;

class FatTreeRoutingHelper : public Ipv4RoutingHelper {
  public:
    FatTreeRoutingHelper* Copy() const override { return new FatTreeRoutingHelper(*this); }
    Ptr<Ipv4RoutingProtocol> Create(Ptr<Node>) const override { return CreateObject<FatTreeRouting>(); }
};

void FatTree(uint32_t k, double seconds) {
    constexpr uint32_t kSegment = 1448, kLimit = 1000;
    Config::SetDefault("ns3::TcpL4Protocol::SocketType", StringValue("ns3::TcpNewReno"));
    Config::SetDefault("ns3::TcpL4Protocol::RecoveryType", StringValue("ns3::TcpPrrRecovery"));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(kSegment));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(2));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(4 << 20));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(4 << 20));
    Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(MilliSeconds(200)));
    Config::SetDefault("ns3::TcpSocketBase::UseEcn", StringValue("On"));

    const uint32_t half = k / 2, pods = k, all = k * half * half;
    NodeContainer hosts(all), edges(pods * half), aggregations(pods * half), cores(half * half);
    InternetStackHelper stack;
    stack.SetIpv6StackInstall(false);
    stack.SetRoutingHelper(FatTreeRoutingHelper());
    for (const auto& nodes : {hosts, edges, aggregations, cores}) {
        stack.Install(nodes);
    }
    TrafficControlHelper marking;
    marking.SetRootQueueDisc("ns3::RedQueueDisc", "MaxSize", StringValue(std::to_string(kLimit) + "p"), "MinTh", DoubleValue(65), "MaxTh",
                             DoubleValue(66), "QW", DoubleValue(1), "LInterm", DoubleValue(1), "Gentle", BooleanValue(false), "UseEcn",
                             BooleanValue(true), "UseHardDrop", BooleanValue(false), "MeanPktSize", UintegerValue(1500));
    Ipv4AddressHelper addresses("10.0.0.0", "255.255.255.252");
    // Joins two nodes; the upper one is a switch, the lower one a switch or a host.
    const auto join = [&](Ptr<Node> lower, Ptr<Node> upper, bool host) {
        PointToPointHelper link;
        link.SetDeviceAttribute("DataRate", StringValue("10Gbps"));
        link.SetChannelAttribute("Delay", StringValue("1us"));
        link.SetQueue("ns3::DropTailQueue", "MaxSize", StringValue("1p"));
        NetDeviceContainer devices = link.Install(lower, upper);
        if (host) {
            DynamicCast<PointToPointNetDevice>(devices.Get(0))->GetQueue()->SetMaxSize(QueueSize(std::to_string(kLimit) + "p"));
            marking.Install(devices.Get(1));
        } else {
            marking.Install(devices);
        }
        Ipv4InterfaceContainer interfaces = addresses.Assign(devices);
        addresses.NewNetwork();
        if (host) {
            TrafficControlHelper().Uninstall(devices.Get(0));
        }
        return interfaces.GetAddress(0);
    };
    const auto routing = [](Ptr<Node> node) { return DynamicCast<FatTreeRouting>(node->GetObject<Ipv4>()->GetRoutingProtocol()); };

    // The interfaces of a node are numbered from 1, in the order in which it is joined: first those that lead down.
    std::vector<Ipv4Address> address(all);
    for (uint32_t host = 0; host < all; ++host) {
        address[host] = join(hosts.Get(host), edges.Get(host / half), true);
        FatTreeRouting::hosts[address[host].Get()] = host;
        routing(hosts.Get(host))->up = {1};
    }
    std::vector<uint32_t> up(half);
    std::iota(up.begin(), up.end(), half + 1);
    for (uint32_t edge = 0; edge < pods * half; ++edge) {
        routing(edges.Get(edge))->up = up;
        routing(edges.Get(edge))->down = [=](uint32_t host) { return host / half == edge ? host % half + 1 : 0; };
    }
    for (uint32_t pod = 0; pod < pods; ++pod) {
        for (uint32_t edge = 0; edge < half; ++edge) {
            for (uint32_t other = 0; other < half; ++other) {
                join(edges.Get(pod * half + edge), aggregations.Get(pod * half + other), false);
            }
        }
        for (uint32_t number = 0; number < half; ++number) {
            const Ptr<Node> node = aggregations.Get(pod * half + number);
            routing(node)->up = up;
            routing(node)->down = [=](uint32_t host) { return host / (half * half) == pod ? host / half % half + 1 : 0; };
            for (uint32_t core = 0; core < half; ++core) {
                join(node, cores.Get(number * half + core), false);
            }
        }
    }
    for (uint32_t core = 0; core < half * half; ++core) {
        routing(cores.Get(core))->down = [=](uint32_t host) { return host / (half * half) + 1; };
    }

    // A random cycle through all hosts: each sends to another, and none receives from two (Sattolo).
    std::vector<uint32_t> to(all);
    std::iota(to.begin(), to.end(), 0);
    std::mt19937 random(1);
    for (uint32_t i = all - 1; i > 0; --i) {
        std::swap(to[i], to[random() % i]);
    }
    auto starts = CreateObject<UniformRandomVariable>();
    ApplicationContainer sinks;
    std::vector<uint32_t> links;
    for (uint32_t host = 0; host < all; ++host) {
        BulkSendHelper source("ns3::TcpSocketFactory", InetSocketAddress(address[to[host]], kPort));
        source.SetAttribute("SendSize", UintegerValue(kSegment));
        source.Install(hosts.Get(host)).Start(Seconds(starts->GetValue(0, 100e-6)));
        sinks.Add(PacketSinkHelper("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), kPort)).Install(hosts.Get(to[host])));
        links.push_back(host / half == to[host] / half ? 2 : host / (half * half) == to[host] / (half * half) ? 4 : 6);
    }
    // Each segment crosses the links of its path, and so does an ACK for every two.
    Measure(seconds, sinks, [&](uint64_t) {
        double hops = 0;
        for (uint32_t i = 0; i < sinks.GetN(); ++i) {
            hops += 1.5 * links[i] * DynamicCast<PacketSink>(sinks.Get(i))->GetTotalRx() / kSegment;
        }
        return hops;
    });
}

} // namespace

int main(int argc, char** argv) {
    const std::string kind = argc > 1 ? argv[1] : "";
    if (kind == "dumbbell" && argc == 5) {
        Dumbbell(std::strtoul(argv[2], nullptr, 10), std::strtod(argv[3], nullptr), std::strtod(argv[4], nullptr));
    } else if (kind == "chain" && argc == 3) {
        Chain(std::strtod(argv[2], nullptr));
    } else if (kind == "fat-tree" && argc == 4) {
        FatTree(std::strtoul(argv[2], nullptr, 10), std::strtod(argv[3], nullptr));
    } else {
        std::fprintf(stderr, "usage: ns3 dumbbell FLOWS MBITS SECONDS | ns3 chain SECONDS | ns3 fat-tree K SECONDS\n");
        return 2;
    }
    return 0;
}
