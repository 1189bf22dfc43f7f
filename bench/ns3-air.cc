// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Goodput of saturated UDP stations on an 802.11g or 802.11n access point in ns-3, the witness
// for docs/air.md. Not part of any build; ns-3 is a Debian package (libns3-dev 3.37):
//
//   c++ -std=c++17 -O1 bench/ns3-air.cc -o ns3-air -lns3-wifi -lns3-internet \
//       -lns3-applications -lns3-mobility -lns3-network -lns3-core
//   ./ns3-air --stations=4
//   ./ns3-air --stations=2 --mcs=7 --queue=100 --rate=90
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
    int mcs = -1;
    bool shortGuard = false;
    bool wide = false;
    bool alone = false;
    bool explicitRequest = true;
    uint32_t queue = 500;
    double rate = 47;
    CommandLine options(__FILE__);
    options.AddValue("stations", "how many send", stations);
    options.AddValue("payload", "bytes of UDP payload", payload);
    options.AddValue("seconds", "simulated time", seconds);
    options.AddValue("long-slot", "20 us slots instead of 9", longSlot);
    options.AddValue("tcp", "TCP instead of saturating UDP", tcp);
    options.AddValue("mcs", "802.11n with this MCS, 0 to 31", mcs);
    options.AddValue("short-gi", "short guard interval", shortGuard);
    options.AddValue("wide", "40 MHz", wide);
    options.AddValue("alone", "no aggregation", alone);
    options.AddValue("request", "BlockAckReq after a missed BlockAck", explicitRequest);
    options.AddValue("queue", "packets that wait in a station's MAC", queue);
    options.AddValue("rate", "Mbit/s that each station offers", rate);
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
    const bool ht = mcs >= 0;
    wifi.SetStandard(ht ? WIFI_STANDARD_80211n : WIFI_STANDARD_80211g);
    wifi.SetRemoteStationManager("ns3::ConstantRateWifiManager",
                                 "DataMode",
                                 StringValue(ht ? "HtMcs" + std::to_string(mcs)
                                                : "ErpOfdmRate54Mbps"),
                                 "ControlMode",
                                 StringValue("ErpOfdmRate24Mbps"));
    Config::SetDefault("ns3::WifiMacQueue::MaxSize",
                       QueueSizeValue(QueueSize(std::to_string(queue) + "p")));
    // As here, nothing is too old to be sent.
    Config::SetDefault("ns3::WifiMacQueue::MaxDelay", TimeValue(Seconds(100)));
    if (ht)
    {
        const uint32_t streams = mcs / 8 + 1;
        const std::string width = wide ? "40" : "20";
        phy.Set("ChannelSettings", StringValue("{0, " + width + ", BAND_2_4GHZ, 0}"));
        phy.Set("Antennas", UintegerValue(streams));
        phy.Set("MaxSupportedTxSpatialStreams", UintegerValue(streams));
        phy.Set("MaxSupportedRxSpatialStreams", UintegerValue(streams));
        wifi.ConfigHtOptions("ShortGuardIntervalSupported", BooleanValue(shortGuard));
        Config::SetDefault("ns3::WifiMac::BE_MaxAmpduSize", UintegerValue(alone ? 0 : 65535));
        Config::SetDefault("ns3::QosTxop::UseExplicitBarAfterMissedBlockAck",
                           BooleanValue(explicitRequest));
    }
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
        steady.SetConstantRate(DataRate(uint64_t(rate * 1e6)), payload);
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
