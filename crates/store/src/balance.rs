//! State of balancing, to and from `balance.json`; decisions of the leader.

use std::{collections::HashMap, fmt};

use fairway_health::balance::{Caution, Kept};
use fairway_model::{AcceptedShare, ClusterName, Demand, Network, Shares, Timestamp};

use super::state_wire::{self, AcceptanceLine, BalanceFile, DecisionNote, DemandLine, FileError, PinLine, VERSION};

/// State of balancing before a restart.
#[derive(Clone, Debug, PartialEq)]
pub struct SavedBalance {
    /// Time of writing.
    pub written: Timestamp,
    /// Shares and demands.
    pub learnt: Kept,
    /// Pool (its key) and client network of each demand.
    pub clients: Vec<(Demand, u64, Network)>,
}

/// Parses `balance.json`. One malformed line makes the file unreadable: a part of the demands would send clients to clusters without
/// capacity for them.
pub(super) fn decode(text: &[u8]) -> Result<SavedBalance, FileError> {
    let file: BalanceFile = state_wire::decode(text)?;
    check_count("clusters", file.acceptance.len(), CLUSTERS_MAX)?;
    check_count("pins", file.pins.len(), Shares::PINS_MAX)?;
    check_count("demands", file.demands.len(), DEMANDS_MAX)?;
    let mut saved =
        SavedBalance { written: file.written.parse().map_err(malformed)?, learnt: Kept::default(), clients: vec![] };
    for AcceptanceLine { cluster, near, spill } in file.acceptance {
        saved.learnt.acceptance.push((name(cluster)?, AcceptedShare { local: near, overflow: spill }));
    }
    for PinLine { demand, cluster } in file.pins {
        saved.learnt.pins.push((self::demand(&demand)?, name(cluster)?));
    }
    for line in file.demands {
        let demand = demand(&line.demand)?;
        saved.learnt.demands.push((demand, line.load, line.doubt, name(line.cluster)?));
        saved.clients.push((demand, number(&line.pool)?, line.client.parse().map_err(malformed)?));
    }
    Ok(saved)
}

/// Returns the text of `balance.json`. Demands of unknown clients are omitted: they mean nothing after a restart.
pub(super) fn encode(saved: &SavedBalance) -> Vec<u8> {
    let SavedBalance { written, learnt, clients } = saved;
    let owners: HashMap<_, _> = clients.iter().map(|(demand, pool, client)| (*demand, (pool, client))).collect();
    let finite = learnt.demands.iter().filter(|(_, load, doubt, _)| load.is_finite() && doubt.is_finite());
    let demand = |(demand, load, doubt, cluster): &(Demand, f64, f64, ClusterName)| {
        let (pool, client) = owners.get(demand)?;
        Some(DemandLine {
            demand: hex(demand.0),
            load: *load,
            doubt: *doubt,
            cluster: cluster.to_string(),
            pool: hex(**pool),
            client: client.to_string(),
        })
    };
    state_wire::encode(&BalanceFile {
        version: VERSION,
        written: format!("{written:.3}"),
        acceptance: learnt.acceptance.iter().map(|(cluster, given)| acceptance_line(cluster, *given)).collect(),
        pins: learnt.pins.iter().map(|(demand, cluster)| pin_line(*demand, cluster)).collect(),
        demands: finite.filter_map(demand).collect(),
    })
}

/// Parses the decision of another server.
pub fn decode_decision(text: &[u8]) -> Result<(Shares, Caution), String> {
    parse_decision(text).map_err(|error| error.to_string())
}

fn parse_decision(text: &[u8]) -> Result<(Shares, Caution), FileError> {
    let note: DecisionNote = state_wire::decode(text)?;
    check_count("clusters", note.acceptance.len(), CLUSTERS_MAX)?;
    check_count("pins", note.pins.len(), Shares::PINS_MAX)?;
    let caution = CAUTIONS.into_iter().find(|(_, word)| *word == note.caution);
    let (caution, _) =
        caution.ok_or_else(|| FileError::Malformed(format!("unknown risk level {:.20}", note.caution)))?;
    let mut shares = Shares { epoch: note.epoch, ..Shares::default() };
    for AcceptanceLine { cluster, near, spill } in note.acceptance {
        shares.accepted.insert(name(cluster)?, AcceptedShare { local: near, overflow: spill });
    }
    for PinLine { demand, cluster } in note.pins {
        shares.pins.insert(self::demand(&demand)?, name(cluster)?);
    }
    Ok((shares, caution))
}

/// Returns the text of a decision of this server, for others.
pub fn encode_decision(shares: &Shares, caution: Caution) -> Vec<u8> {
    let caution = CAUTIONS.into_iter().find(|(known, _)| *known == caution);
    state_wire::encode(&DecisionNote {
        version: VERSION,
        epoch: shares.epoch,
        caution: caution.map_or("", |(_, word)| word).to_owned(),
        acceptance: shares.accepted.iter().map(|(cluster, given)| acceptance_line(cluster, *given)).collect(),
        pins: shares.pins.iter().map(|(demand, cluster)| pin_line(*demand, cluster)).collect(),
    })
}

const CAUTIONS: [(Caution, &str); 3] =
    [(Caution::Calm, "calm"), (Caution::Ordinary, "ordinary"), (Caution::Short, "short")];

fn pin_line(demand: Demand, cluster: &ClusterName) -> PinLine {
    PinLine { demand: hex(demand.0), cluster: cluster.to_string() }
}

fn acceptance_line(cluster: &ClusterName, given: AcceptedShare) -> AcceptanceLine {
    AcceptanceLine { cluster: cluster.to_string(), near: given.local, spill: given.overflow }
}

fn check_count(what: &str, count: usize, max: usize) -> Result<(), FileError> {
    if count <= max { Ok(()) } else { Err(FileError::Malformed(format!("{count} {what}; the limit is {max}"))) }
}

fn name(text: String) -> Result<ClusterName, FileError> {
    ClusterName::new(&text).map_err(malformed)
}

fn demand(text: &str) -> Result<Demand, FileError> {
    number(text).map(Demand)
}

fn number(text: &str) -> Result<u64, FileError> {
    u64::from_str_radix(text, 16).map_err(malformed)
}

fn hex(number: u64) -> String {
    format!("{number:016x}")
}

fn malformed(error: impl fmt::Display) -> FileError {
    FileError::Malformed(error.to_string())
}

/// Maximum number of balanced clusters.
const CLUSTERS_MAX: usize = 65_535;
/// Maximum number of demands that are known one by one.
const DEMANDS_MAX: usize = 4_096;

#[cfg(test)]
mod tests {
    use super::*;

    fn saved() -> SavedBalance {
        let [eu1, us1] = ["eu1", "us1"].map(|name| ClusterName::new(name).unwrap());
        let client = |text: &str| text.parse().unwrap();
        let learnt = Kept {
            acceptance: vec![
                (eu1.clone(), AcceptedShare { local: 40_000, overflow: 0 }),
                (us1.clone(), AcceptedShare::ALL),
            ],
            pins: vec![(Demand(7), us1.clone())],
            demands: vec![(Demand(7), 62.5, 1e-3, us1), (Demand(u64::MAX), 0.25, 0.0, eu1)],
        };
        let clients = vec![(Demand(7), 42, client("198.51.100.0/24")), (Demand(u64::MAX), 42, client("2001:db8::/56"))];
        SavedBalance { written: Timestamp::from_secs(200), learnt, clients }
    }

    #[test]
    fn encoded_state_is_decoded_unchanged() {
        assert_eq!(decode(&encode(&saved())).unwrap(), saved());
    }

    #[test]
    fn decision_is_decoded_and_malformed_one_is_rejected() {
        let SavedBalance { learnt, .. } = saved();
        let shares = Shares {
            epoch: 12,
            accepted: learnt.acceptance.into_iter().collect(),
            pins: learnt.pins.into_iter().collect(),
        };
        for (caution, word) in CAUTIONS {
            let text = encode_decision(&shares, caution);
            assert_eq!(decode_decision(&text).unwrap(), (shares.clone(), caution));
            assert!((0..text.len()).all(|end| decode_decision(&text[..end]).is_err()));
            let odd = String::from_utf8(text).unwrap().replace(word, "odd");
            assert_eq!(decode_decision(odd.as_bytes()).unwrap_err(), "malformed: unknown risk level odd");
        }
    }

    #[test]
    fn truncated_file_is_rejected() {
        let text = encode(&saved());
        assert!((0..text.len()).all(|end| decode(&text[..end]).is_err()));
    }

    #[test]
    fn demand_without_load_or_client_is_omitted() {
        let mut odd = saved();
        odd.learnt.demands[0].1 = f64::NAN;
        odd.clients.pop();
        assert_eq!(decode(&encode(&odd)).unwrap().learnt.demands, []);
    }

    #[test]
    fn counts_over_the_limit_and_malformed_values_are_rejected() {
        let mut many = saved();
        many.learnt.pins = (0..=Shares::PINS_MAX as u64).map(|n| (Demand(n), many.learnt.pins[0].1.clone())).collect();
        let error = decode(&encode(&many)).unwrap_err().to_string();
        assert!(error.contains("1025 pins; the limit is 1024"), "{error}");
        let text = String::from_utf8(encode(&saved())).unwrap();
        for (sound, odd) in
            [("198.51.100.0/24", "198.51.100.0/99"), ("\"eu1\"", "\"\""), ("40000", "70000"), ("0.25", "\"x\"")]
        {
            assert!(text.contains(sound), "{text}");
            assert!(decode(text.replace(sound, odd).as_bytes()).is_err(), "{odd}");
        }
    }
}
