//! Describes a client's location for people. Class and block are described by the pool, whose views may split them
//! further.

use std::net::IpAddr;

use super::CompiledRankings;

impl CompiledRankings {
    /// Describes the location of an address, with sources:
    /// `203.0.113.7 -> country DE, continent EU (203.0.113.0/24, database x.mmdb); geo.prefer[0] applies`
    pub(crate) fn describe(&self, address: IpAddr) -> String {
        let mut text = address.to_string();
        let entry = self.inputs.map.as_ref().map(|map| map.entry(address));
        if let Some(entry) = &entry {
            text += &format!(" -> {}", entry.location);
            let (place, asn) = (entry.location_source, entry.asn_source);
            let asn = asn.filter(|asn| Some(*asn) != place);
            let sources = [place.map(ToString::to_string), asn.map(|asn| format!("AS from {asn}"))];
            let sources: Vec<_> = sources.into_iter().flatten().collect();
            if !sources.is_empty() {
                text += &format!(" ({}, {})", entry.block, sources.join(", "));
            }
        }
        if let Some(latencies) = self.latencies(address) {
            text += &format!("; latencies: {latencies}");
        }
        if let Some(entry) = entry.filter(|_| !self.inputs.geo.prefer.is_empty())
            && let (Some(preference), _) = self.inputs.geo.regions(entry.location)
        {
            text += &format!("; geo.prefer[{preference}] applies");
        }
        text
    }

    /// Returns the latencies by cluster, such as `eu1 12 ms`. `None` if the pool uses no latency table.
    fn latencies(&self, address: IpAddr) -> Option<String> {
        let table = self.inputs.latencies.as_ref()?;
        let (block, class) = table.entry(address);
        let known = self.inputs.members.iter().filter_map(|member| {
            let column = member.column?;
            Some((table.clusters().get(column)?, (*class.get(column)?)?))
        });
        let known: Vec<_> = known.map(|(cluster, latency)| format!("{cluster} {latency}")).collect();
        Some(if known.is_empty() { "none known".to_owned() } else { format!("{} ({block})", known.join(", ")) })
    }
}
