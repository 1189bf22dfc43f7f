// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Bulk TCP of N pairs of hosts over one bottleneck in ns-3 with its own model of TCP (CUBIC): what
// bench/simulator.py compares the simulator's wall time with. Debian's libns3-dev 3.37:
//
//   c++ -std=c++17 -O2 bench/ns3-tcp.cc -o ns3-tcp -lns3-internet -lns3-applications \
//       -lns3-point-to-point -lns3-traffic-control -lns3-network -lns3-core
#include <ns3/applications-module.h>
#include <ns3/core-module.h>
#include <ns3/internet-module.h>
#include <ns3/network-module.h>
#include <ns3/point-to-point-module.h>
#include <ns3/traffic-control-module.h>

#include <chrono>
#include <iostream>

using namespace ns3;

static NetDeviceContainer
Connect(Ptr<Node> a, Ptr<Node> b, const std::string& rate, const std::string& delay, uint32_t queue)
{
    PointToPointHelper link;
    link.SetDeviceAttribute("DataRate", StringValue(rate));
    link.SetChannelAttribute("Delay", StringValue(delay));
    link.SetQueue("ns3::DropTailQueue<Packet>", "MaxSize",
                  QueueSizeValue(QueueSize(QueueSizeUnit::PACKETS, queue)));
    return link.Install(a, b);
}

int
main(int argc, char** argv)
{
    uint32_t pairs = 1;
    double mbit = 20;
    double rtt = 64;
    uint32_t queue = 100;
    double seconds = 10;
    CommandLine options(__FILE__);
    options.AddValue("pairs", "senders, each with a receiver of its own", pairs);
    options.AddValue("mbit", "of the bottleneck", mbit);
    options.AddValue("rtt", "round trip without queue, ms", rtt);
    options.AddValue("queue", "packets in front of the bottleneck", queue);
    options.AddValue("seconds", "simulated time", seconds);
    options.Parse(argc, argv);
    auto began = std::chrono::steady_clock::now();

    Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(TcpCubic::GetTypeId()));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(1448));
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(2));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(4 << 20));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(6 << 20));

    NodeContainer routers;
    NodeContainer senders;
    NodeContainer receivers;
    routers.Create(2);
    senders.Create(pairs);
    receivers.Create(pairs);
    InternetStackHelper stack;
    stack.InstallAll();
    std::string bottleneck = std::to_string(mbit) + "Mbps";
    std::string half = std::to_string(rtt / 2) + "ms";
    Ipv4AddressHelper addresses("10.0.0.0", "255.255.255.252");
    TrafficControlHelper control;
    auto install = [&](Ptr<Node> a, Ptr<Node> b, const std::string& rate, const std::string& delay,
                       uint32_t waiting) {
        NetDeviceContainer devices = Connect(a, b, rate, delay, waiting);
        Ipv4InterfaceContainer interfaces = addresses.Assign(devices);
        control.Uninstall(devices);
        addresses.NewNetwork();
        return interfaces;
    };
    install(routers.Get(0), routers.Get(1), bottleneck, half, queue);
    std::vector<Ipv4Address> there;
    for (uint32_t i = 0; i < pairs; i++)
    {
        install(senders.Get(i), routers.Get(0), "10Gbps", "1us", 100000);
        there.push_back(
            install(receivers.Get(i), routers.Get(1), "10Gbps", "1us", 100000).GetAddress(0));
    }
    Ipv4GlobalRoutingHelper::PopulateRoutingTables();
    for (uint32_t i = 0; i < pairs; i++)
    {
        BulkSendHelper bulk("ns3::TcpSocketFactory", InetSocketAddress(there[i], 5001));
        bulk.SetAttribute("SendSize", UintegerValue(131072));
        bulk.Install(senders.Get(i)).Start(Seconds(0));
        PacketSinkHelper sink("ns3::TcpSocketFactory",
                              InetSocketAddress(Ipv4Address::GetAny(), 5001));
        sink.Install(receivers.Get(i)).Start(Seconds(0));
    }
    Simulator::Stop(Seconds(seconds));
    Simulator::Run();
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < pairs; i++)
    {
        bytes += DynamicCast<PacketSink>(receivers.Get(i)->GetApplication(0))->GetTotalRx();
    }
    std::chrono::duration<double> wall = std::chrono::steady_clock::now() - began;
    std::cout << "{\"wall_s\": " << wall.count() << ", \"bytes\": " << bytes
              << ", \"goodput_mbit\": " << bytes * 8e-6 / seconds << "}" << std::endl;
    Simulator::Destroy();
    return 0;
}
