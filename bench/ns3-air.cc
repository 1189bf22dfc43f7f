// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Goodput of saturated UDP stations on an 802.11g access point in ns-3, the witness for
// docs/air.md. Not part of any build; ns-3 is a Debian package (libns3-dev 3.37):
//
//   c++ -std=c++17 -O1 bench/ns3-air.cc -o ns3-air -lns3-wifi -lns3-internet \
//       -lns3-applications -lns3-mobility -lns3-network -lns3-core
//   ./ns3-air --stations=4
#include <ns3/applications-module.h>
#include <ns3/core-module.h>
#include <ns3/internet-module.h>
#include <ns3/mobility-module.h>
#include <ns3/network-module.h>
#include <ns3/wifi-module.h>

#include <iostream>

using namespace ns3;

int
main(int argc, char** argv)
{
    uint32_t stations = 1;
    uint32_t payload = 1470;
    double seconds = 20;
    bool longSlot = false;
    bool tcp = false;
    CommandLine options(__FILE__);
    options.AddValue("stations", "how many send", stations);
    options.AddValue("payload", "bytes of UDP payload", payload);
    options.AddValue("seconds", "simulated time", seconds);
    options.AddValue("long-slot", "20 us slots instead of 9", longSlot);
    options.AddValue("tcp", "TCP instead of saturating UDP", tcp);
    options.Parse(argc, argv);

    // As Linux does: 1448 bytes a segment, an ACK each second segment, windows that do not limit.
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(1448));
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(2));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(4 << 20));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(4 << 20));

    NodeContainer accessPoint;
    NodeContainer senders;
    accessPoint.Create(1);
    senders.Create(stations);

    YansWifiPhyHelper phy;
    phy.SetChannel(YansWifiChannelHelper::Default().Create());
    WifiHelper wifi;
    wifi.SetStandard(WIFI_STANDARD_80211g);
    wifi.SetRemoteStationManager("ns3::ConstantRateWifiManager",
                                 "DataMode",
                                 StringValue("ErpOfdmRate54Mbps"),
                                 "ControlMode",
                                 StringValue("ErpOfdmRate24Mbps"));
    WifiMacHelper mac;
    Ssid ssid("air");
    mac.SetType("ns3::StaWifiMac", "Ssid", SsidValue(ssid), "ShortSlotTimeSupported",
                BooleanValue(!longSlot));
    NetDeviceContainer devices = wifi.Install(phy, mac, senders);
    mac.SetType("ns3::ApWifiMac", "Ssid", SsidValue(ssid), "ShortSlotTimeSupported",
                BooleanValue(!longSlot));
    NetDeviceContainer base = wifi.Install(phy, mac, accessPoint);

    // All within a metre: every frame is heard by everybody, none is lost to noise.
    MobilityHelper mobility;
    mobility.SetMobilityModel("ns3::ConstantPositionMobilityModel");
    mobility.Install(accessPoint);
    mobility.Install(senders);

    InternetStackHelper internet;
    internet.Install(accessPoint);
    internet.Install(senders);
    Ipv4AddressHelper addresses("10.0.0.0", "255.255.255.0");
    Ipv4InterfaceContainer top = addresses.Assign(base);
    addresses.Assign(devices);

    const uint16_t port = 5001;
    const std::string sockets = tcp ? "ns3::TcpSocketFactory" : "ns3::UdpSocketFactory";
    std::vector<Ptr<PacketSink>> sinks;
    for (uint32_t i = 0; i < stations; i++)
    {
        const uint16_t own = port + i;
        PacketSinkHelper sink(sockets, InetSocketAddress(Ipv4Address::GetAny(), own));
        ApplicationContainer receiver = sink.Install(accessPoint.Get(0));
        receiver.Start(Seconds(0));
        sinks.push_back(DynamicCast<PacketSink>(receiver.Get(0)));
        const InetSocketAddress server(top.GetAddress(0), own);
        BulkSendHelper bulk(sockets, server);
        OnOffHelper steady(sockets, server);
        steady.SetConstantRate(DataRate("47Mbps"), payload);
        ApplicationContainer client =
            tcp ? bulk.Install(senders.Get(i)) : steady.Install(senders.Get(i));
        client.Start(Seconds(1 + 0.001 * i));
    }

    std::vector<uint64_t> before(stations);
    Simulator::Schedule(Seconds(2), [&]() {
        for (uint32_t i = 0; i < stations; i++)
        {
            before[i] = sinks[i]->GetTotalRx();
        }
    });
    Simulator::Stop(Seconds(2 + seconds));
    Simulator::Run();

    double sum = 0;
    double squares = 0;
    for (uint32_t i = 0; i < stations; i++)
    {
        const double mbit = (sinks[i]->GetTotalRx() - before[i]) * 8 / seconds / 1e6;
        sum += mbit;
        squares += mbit * mbit;
    }
    std::cout << stations << " stations: " << sum << " Mbit/s, Jain "
              << sum * sum / (stations * squares) << std::endl;
    Simulator::Destroy();
    return 0;
}
