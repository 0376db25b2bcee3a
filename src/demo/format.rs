//! Text of the demo's measurements and events, at most 98 columns wide.

use std::{collections::BTreeSet, net::Ipv4Addr, time::Duration};

use super::{
    dns_client::Answer,
    playground::{CLUSTERS, cluster_name},
};
use crate::cli::{Cell, Palette, Tone, table, thousands};

/// Width of a bar for a share of 100 %.
const BAR: usize = 30;

/// Answers to client networks, by number of the network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shares(pub(super) Vec<Answer>);

impl Shares {
    /// Returns the share of an address in tenths of a percent, rounded.
    pub(super) fn permille(&self, address: Ipv4Addr) -> usize {
        let (count, total) = (self.0.iter().filter(|a| **a == Some(address)).count(), self.0.len());
        (count * 1_000 + total / 2).checked_div(total).unwrap_or(0)
    }

    /// Counts the networks whose cluster did not fail. Returns how many of them moved nevertheless, and how many there are.
    pub(super) fn unnecessary_moves(&self, now: &Self, failed: Ipv4Addr) -> (usize, usize) {
        let could_stay = || self.0.iter().zip(&now.0).filter(|(before, _)| **before != Some(failed));
        (could_stay().filter(|(before, after)| before != after).count(), could_stay().count())
    }

    /// Returns name, weight and address of each cluster. Those that the user has added are named by their address.
    fn clusters(&self) -> Vec<(String, String, Ipv4Addr)> {
        let declared = CLUSTERS.map(|c| (c.name.to_owned(), format!("weight {}", c.weight), c.address));
        let known = CLUSTERS.map(|c| c.address);
        let added: BTreeSet<_> = self.0.iter().flatten().filter(|address| !known.contains(address)).collect();
        let added = added.into_iter().map(|address| (address.to_string(), String::new(), *address));
        declared.into_iter().chain(added).collect()
    }
}

/// Formats shares as a table with bars, and with the shares before.
pub(super) fn shares(palette: Palette, now: &Shares, before: Option<&Shares>) -> String {
    let percent = |permille: usize| format!("{:>3}.{} %", permille / 10, permille % 10);
    let row = |(name, weight, address): (String, String, Ipv4Addr)| {
        let permille = now.permille(address);
        let bar = "█".repeat((permille * BAR + 500) / 1_000);
        let gap = " ".repeat(BAR - bar.chars().count());
        let mut cells = vec![name.into(), Cell::new(Tone::Quiet, weight), Cell::new(Tone::Try, bar + &gap)];
        cells.push(percent(permille).into());
        if let Some(before) = before {
            cells.push(Cell::new(Tone::Quiet, format!("was {}", percent(before.permille(address)))));
        }
        cells
    };
    table(palette, 4, &[], now.clusters().into_iter().map(row))
}

/// Formats shares in one line.
pub(super) fn shares_line(now: &Shares) -> String {
    let part = |(name, _, address): (String, String, Ipv4Addr)| {
        let permille = now.permille(address);
        format!("{name} {}.{} %", permille / 10, permille % 10)
    };
    now.clusters().into_iter().map(part).collect::<Vec<_>>().join(", ")
}

/// Formats the line of an event: time, kind and content.
pub(super) fn event(palette: Palette, when: &str, kind: &str, content: &[(Tone, String)]) -> String {
    let content: String = content.iter().map(|(tone, text)| palette.paint(*tone, text)).collect();
    format!("  {when:>9}  {}  {content}", palette.paint(Tone::Quiet, &format!("{kind:<8}")))
}

/// Formats a changed answer: the name, the clusters before and now, and the client.
pub(super) fn answer_change(name: &str, from: Answer, to: Answer, client: Option<Ipv4Addr>) -> Vec<(Tone, String)> {
    let side = |answer: Answer| match answer {
        Some(address) if cluster_name(answer) != address.to_string() => format!("{address} ({})", cluster_name(answer)),
        _ => cluster_name(answer),
    };
    let client = client.map(|c| format!("  for client {c}/24")).unwrap_or_default();
    vec![
        (Tone::Strong, format!("{name:<17}  ")),
        (Tone::Quiet, side(from)),
        (Tone::Plain, " → ".to_owned()),
        (Tone::Good, side(to)),
        (Tone::Quiet, client),
    ]
}

/// Formats a time in milliseconds: `213 ms`.
pub(super) fn millis(span: Duration) -> String {
    format!("{} ms", thousands(u64::try_from(span.as_millis()).unwrap_or(u64::MAX)))
}

/// Formats the time since the start of the demo: `12.3 s`.
pub(super) fn clock(span: Duration) -> String {
    format!("{}.{} s", span.as_secs(), span.subsec_millis() / 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns shares with this number of networks for each cluster.
    fn share_counts(counts: [usize; 3]) -> Shares {
        let answers = CLUSTERS.iter().zip(counts).flat_map(|(c, n)| vec![Some(c.address); n]).collect();
        Shares(answers)
    }

    #[test]
    fn bars_are_proportional_to_shares() {
        let text = shares(Palette::PLAIN, &share_counts([6, 3, 1]), None);
        let line = format!("    eu1  weight 60  {}{}   60.0 %\n", "█".repeat(18), " ".repeat(12));
        assert!(text.starts_with(&line), "{text}");
        assert!(text.lines().all(|l| l.chars().count() <= 98));
    }

    #[test]
    fn shares_before_are_shown_next_to_the_present_ones() {
        let text = shares(Palette::PLAIN, &share_counts([0, 8, 2]), Some(&share_counts([6, 3, 1])));
        assert!(text.lines().next().unwrap().ends_with("  0.0 %  was  60.0 %"), "{text}");
    }

    #[test]
    fn added_cluster_is_shown_by_its_address() {
        let own = Ipv4Addr::new(127, 0, 9, 1);
        let now = Shares(vec![Some(own), Some(CLUSTERS[0].address)]);
        assert!(shares(Palette::PLAIN, &now, None).contains("127.0.9.1"));
        assert_eq!(shares_line(&now), "eu1 50.0 %, us1 0.0 %, ap1 0.0 %, 127.0.9.1 50.0 %");
    }

    #[test]
    fn only_clients_of_other_clusters_count_as_unnecessary_moves() {
        let [eu1, us1, ap1] = CLUSTERS.map(|c| Some(c.address));
        let before = Shares(vec![eu1, us1, us1, ap1]);
        let after = Shares(vec![us1, us1, ap1, ap1]);
        assert_eq!(before.unnecessary_moves(&after, CLUSTERS[0].address), (1, 3));
    }

    #[test]
    fn event_lines_are_aligned() {
        let change = answer_change("pay.demo.example", Some(CLUSTERS[0].address), None, None);
        let line = event(Palette::PLAIN, &millis(Duration::from_millis(1_213)), "answer", &change);
        assert_eq!(line, "   1,213 ms  answer    pay.demo.example   127.0.1.1 (eu1) → no address");
    }
}
