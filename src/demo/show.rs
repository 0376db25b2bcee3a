//! How the demo looks: plain functions from what happened to text, at most 98 columns wide.

use std::{net::Ipv4Addr, time::Duration};

use super::{
    asker::Answer,
    stage::{CLUSTERS, DemoCluster, cluster_of},
};
use crate::cli::{Cell, Palette, Tone, table, thousands};

/// Width of a bar that stands for everybody.
const BAR: usize = 30;

/// Who got what: networks by the cluster they were answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shares {
    answers: Vec<Answer>,
}

impl Shares {
    /// Counts a census.
    pub(super) fn new(answers: Vec<Answer>) -> Self {
        Self { answers }
    }

    /// The answers, by number of the network.
    pub(super) fn answers(&self) -> &[Answer] {
        &self.answers
    }

    /// How many networks were asked for.
    pub(super) fn total(&self) -> usize {
        self.answers.len()
    }

    /// How many networks got this address.
    pub(super) fn of(&self, address: Ipv4Addr) -> usize {
        self.answers.iter().filter(|a| **a == Some(address)).count()
    }

    /// The part that got this address, in tenths of a percent, rounded.
    pub(super) fn permille(&self, address: Ipv4Addr) -> usize {
        (self.of(address) * 1_000 + self.total() / 2).checked_div(self.total()).unwrap_or(0)
    }

    /// Networks whose cluster could have stayed (it is not `gone`) and changed all the same, and all whose could have.
    pub(super) fn moved_for_nothing(&self, now: &Self, gone: Ipv4Addr) -> (usize, usize) {
        let could_stay = self.answers.iter().zip(&now.answers).filter(|(before, _)| **before != Some(gone));
        let (mut moved, mut all) = (0, 0);
        for (before, after) in could_stay {
            all += 1;
            moved += usize::from(before != after);
        }
        (moved, all)
    }

    /// Addresses that were answered and are no demo cluster's: the visitor's own.
    fn others(&self) -> Vec<Ipv4Addr> {
        let known = |a: &Ipv4Addr| CLUSTERS.iter().any(|c| c.address == *a);
        let mut others: Vec<_> = self.answers.iter().flatten().copied().filter(|a| !known(a)).collect();
        others.sort_unstable();
        others.dedup();
        others
    }
}

/// The shares as a table with bars, beside those before where there are some.
pub(super) fn shares(palette: Palette, now: &Shares, before: Option<&Shares>) -> String {
    let percent = |permille: usize| format!("{:>3}.{} %", permille / 10, permille % 10);
    let row = |name: String, weight: String, address: Ipv4Addr| {
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
    let declared = CLUSTERS.iter().map(|c| row(c.name.to_owned(), format!("weight {}", c.weight), c.address));
    let others = now.others().into_iter().map(|a| row(a.to_string(), String::new(), a));
    table(palette, 4, &[], &declared.chain(others).collect::<Vec<_>>())
}

/// The shares in one line.
pub(super) fn shares_line(now: &Shares) -> String {
    let part = |name: String, address: Ipv4Addr| {
        let permille = now.permille(address);
        format!("{name} {}.{} %", permille / 10, permille % 10)
    };
    let declared = CLUSTERS.iter().map(|c: &DemoCluster| part(c.name.to_owned(), c.address));
    let others = now.others().into_iter().map(|a| part(a.to_string(), a));
    declared.chain(others).collect::<Vec<_>>().join(", ")
}

/// One line of what happened: when, what kind, to whom, how.
pub(super) fn moment(palette: Palette, when: &str, kind: &str, what: &[(Tone, String)]) -> String {
    let what: String = what.iter().map(|(tone, text)| palette.paint(*tone, text)).collect();
    format!("  {when:>9}  {}  {what}", palette.paint(Tone::Quiet, &format!("{kind:<8}")))
}

/// A changed answer: the name, from whom to whom.
pub(super) fn change(name: &str, from: Answer, to: Answer, client: Option<Ipv4Addr>) -> Vec<(Tone, String)> {
    let side = |answer: Answer| match answer {
        Some(address) if cluster_of(answer) != address.to_string() => format!("{address} ({})", cluster_of(answer)),
        _ => cluster_of(answer),
    };
    let whose = client.map(|c| format!("  for client {c}/24")).unwrap_or_default();
    vec![
        (Tone::Strong, format!("{name:<17}  ")),
        (Tone::Quiet, side(from)),
        (Tone::Plain, " → ".to_owned()),
        (Tone::Good, side(to)),
        (Tone::Quiet, whose),
    ]
}

/// `213 ms`.
pub(super) fn millis(span: Duration) -> String {
    format!("{} ms", thousands(u64::try_from(span.as_millis()).unwrap_or(u64::MAX)))
}

/// `12.3 s`: how long the demo has been running.
pub(super) fn clock(span: Duration) -> String {
    format!("{}.{} s", span.as_secs(), span.subsec_millis() / 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A census of 10: so many for each cluster, in order.
    fn census(counts: [usize; 3]) -> Shares {
        let answers = CLUSTERS.iter().zip(counts).flat_map(|(c, n)| vec![Some(c.address); n]).collect();
        Shares::new(answers)
    }

    #[test]
    fn shares_are_drawn_to_scale() {
        let text = shares(Palette::PLAIN, &census([6, 3, 1]), None);
        let line = format!("    eu1  weight 60  {}{}   60.0 %\n", "█".repeat(18), " ".repeat(12));
        assert!(text.starts_with(&line), "{text}");
        assert!(text.lines().all(|l| l.chars().count() <= 98));
    }

    #[test]
    fn shares_before_stand_beside_those_now() {
        let text = shares(Palette::PLAIN, &census([0, 8, 2]), Some(&census([6, 3, 1])));
        assert!(text.lines().next().unwrap().ends_with("  0.0 %  was  60.0 %"), "{text}");
    }

    #[test]
    fn a_cluster_that_the_visitor_added_is_shown_by_its_address() {
        let own = Ipv4Addr::new(127, 0, 9, 1);
        let now = Shares::new(vec![Some(own), Some(CLUSTERS[0].address)]);
        assert!(shares(Palette::PLAIN, &now, None).contains("127.0.9.1"));
        assert_eq!(shares_line(&now), "eu1 50.0 %, us1 0.0 %, ap1 0.0 %, 127.0.9.1 50.0 %");
    }

    #[test]
    fn only_clients_that_could_have_stayed_count_as_moved_for_nothing() {
        let [eu1, us1, ap1] = CLUSTERS.map(|c| Some(c.address));
        let before = Shares::new(vec![eu1, us1, us1, ap1]);
        let after = Shares::new(vec![us1, us1, ap1, ap1]);
        assert_eq!(before.moved_for_nothing(&after, CLUSTERS[0].address), (1, 3));
    }

    #[test]
    fn lines_of_what_happened_line_up() {
        let change = change("pay.demo.example", Some(CLUSTERS[0].address), None, None);
        let line = moment(Palette::PLAIN, &millis(Duration::from_millis(1_213)), "answer", &change);
        assert_eq!(line, "   1,213 ms  answer    pay.demo.example   127.0.1.1 (eu1) → no address");
    }
}
