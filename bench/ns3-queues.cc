// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Queueing disciplines of ns-3 at a bottleneck, the witness for docs/links.md. Not part of any
// build; ns-3 is a Debian package (libns3-dev 3.37):
//
//   c++ -std=c++17 -O1 bench/ns3-queues.cc -o ns3-queues -lns3-traffic-control \
//       -lns3-point-to-point -lns3-internet -lns3-applications -lns3-network -lns3-core
//   ./ns3-queues --kind=codel --udp=12
//   ./ns3-queues --kind=pie --flows=10
#include <ns3/applications-module.h>
#include <ns3/core-module.h>
#include <ns3/internet-module.h>
#include <ns3/network-module.h>
#include <ns3/point-to-point-module.h>
#include <ns3/traffic-control-module.h>

#include <iostream>

using namespace ns3;

static double waits = 0;
static uint64_t waited = 0;
static double from = 10;

static void
Waited(Time wait)
{
    if (Simulator::Now().GetSeconds() >= from)
    {
        waits += wait.GetSeconds() * 1e3;
        waited++;
    }
}

int
main(int argc, char** argv)
{
    std::string kind = "codel";
    double rate = 20;
    double udp = 0;
    uint32_t flows = 1;
    double seconds = 60;
    double delay = 20;
    bool ecn = false;
    CommandLine options(__FILE__);
    options.AddValue("kind", "drop-tail, codel, fq-codel or pie", kind);
    options.AddValue("rate", "of the bottleneck, Mbit/s from the IP header on", rate);
    options.AddValue("udp", "a constant stream of so many Mbit/s instead of TCP", udp);
    options.AddValue("flows", "of TCP (CUBIC)", flows);
    options.AddValue("seconds", "simulated time", seconds);
    options.AddValue("delay", "one way, ms", delay);
    options.AddValue("ecn", "ECN-capable TCP, and marks", ecn);
    options.Parse(argc, argv);

    Config::SetDefault("ns3::TcpL4Protocol::SocketType", StringValue("ns3::TcpCubic"));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(1448));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(1));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(8 << 20));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(8 << 20));
    if (ecn)
    {
        Config::SetDefault("ns3::TcpSocketBase::UseEcn", StringValue("On"));
    }

    NodeContainer hosts;
    hosts.Create(3);
    InternetStackHelper internet;
    internet.Install(hosts);

    // The sender's own link is fast; the bottleneck's device holds one packet, so that all others
    // wait in the discipline. PPP adds 2 bytes to each.
    PointToPointHelper link;
    link.SetDeviceAttribute("DataRate", StringValue("10Gbps"));
    link.SetChannelAttribute("Delay", StringValue("0ms"));
    NetDeviceContainer near = link.Install(hosts.Get(0), hosts.Get(1));
    link.SetDeviceAttribute("DataRate", DataRateValue(DataRate(rate * 1e6 * 1502 / 1500)));
    link.SetChannelAttribute("Delay", TimeValue(MilliSeconds(delay)));
    link.SetQueue("ns3::DropTailQueue", "MaxSize", StringValue("1p"));
    NetDeviceContainer far = link.Install(hosts.Get(1), hosts.Get(2));

    TrafficControlHelper none;
    none.SetRootQueueDisc("ns3::FifoQueueDisc", "MaxSize", StringValue("10000p"));
    none.Install(near);
    none.Install(far.Get(1));
    TrafficControlHelper bottleneck;
    if (kind == "codel")
    {
        bottleneck.SetRootQueueDisc("ns3::CoDelQueueDisc", "MaxSize", StringValue("1000p"),
                                    "UseEcn", BooleanValue(ecn));
    }
    else if (kind == "fq-codel")
    {
        bottleneck.SetRootQueueDisc("ns3::FqCoDelQueueDisc", "MaxSize", StringValue("10240p"),
                                    "UseEcn", BooleanValue(ecn));
    }
    else if (kind == "pie")
    {
        bottleneck.SetRootQueueDisc("ns3::PieQueueDisc", "MaxSize", StringValue("1000p"), "UseEcn",
                                    BooleanValue(ecn), "UseDerandomization", BooleanValue(true),
                                    "UseCapDropAdjustment", BooleanValue(true),
                                    "UseDequeueRateEstimator", BooleanValue(false));
    }
    else
    {
        bottleneck.SetRootQueueDisc("ns3::FifoQueueDisc", "MaxSize", StringValue("1000p"));
    }
    Ptr<QueueDisc> queue = bottleneck.Install(far.Get(0)).Get(0);
    queue->TraceConnectWithoutContext("SojournTime", MakeCallback(&Waited));

    Ipv4AddressHelper addresses("10.0.0.0", "255.255.255.0");
    addresses.Assign(near);
    addresses.NewNetwork();
    Ipv4InterfaceContainer top = addresses.Assign(far);
    Ipv4GlobalRoutingHelper::PopulateRoutingTables();

    const bool tcp = udp == 0;
    const std::string sockets = tcp ? "ns3::TcpSocketFactory" : "ns3::UdpSocketFactory";
    std::vector<Ptr<PacketSink>> sinks;
    for (uint32_t i = 0; i < (tcp ? flows : 1); i++)
    {
        const uint16_t port = 5001 + i;
        PacketSinkHelper sink(sockets, InetSocketAddress(Ipv4Address::GetAny(), port));
        ApplicationContainer receiver = sink.Install(hosts.Get(2));
        sinks.push_back(DynamicCast<PacketSink>(receiver.Get(0)));
        const InetSocketAddress server(top.GetAddress(1), port);
        BulkSendHelper bulk(sockets, server);
        OnOffHelper steady(sockets, server);
        steady.SetConstantRate(DataRate(udp * 1e6 * 1472 / 1500), 1472);
        ApplicationContainer client = tcp ? bulk.Install(hosts.Get(0)) : steady.Install(hosts.Get(0));
        client.Start(Seconds(0.001 * i));
    }
    std::vector<uint64_t> before(sinks.size());
    Simulator::Schedule(Seconds(from), [&]() {
        for (size_t i = 0; i < sinks.size(); i++)
        {
            before[i] = sinks[i]->GetTotalRx();
        }
    });
    Simulator::Stop(Seconds(seconds));
    Simulator::Run();

    double sum = 0;
    double squares = 0;
    for (size_t i = 0; i < sinks.size(); i++)
    {
        const double mbit = (sinks[i]->GetTotalRx() - before[i]) * 8 / (seconds - from) / 1e6;
        sum += mbit;
        squares += mbit * mbit;
    }
    const QueueDisc::Stats& stats = queue->GetStats();
    std::cout << kind << (tcp ? " tcp " : " udp ") << (tcp ? flows : udp) << ": wait "
              << waits / waited << " ms, payload " << sum << " Mbit/s, Jain "
              << sum * sum / (sinks.size() * squares) << ", dropped "
              << stats.nTotalDroppedPackets << ", marked " << stats.nTotalMarkedPackets
              << std::endl;
    Simulator::Destroy();
    return 0;
}
