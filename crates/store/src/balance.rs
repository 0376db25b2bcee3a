//! What balancing has learnt, to and from `balance.json`.

use std::{collections::HashMap, fmt};

use fairway_health::balance::{Caution, Kept};
use fairway_model::{AcceptedShare, ClusterName, Demand, Network, Shares, Timestamp};

use super::state_wire::{self, AcceptanceLine, BalanceFile, DecisionNote, DemandLine, FileError, PinLine, VERSION};

/// What balancing had learnt before a restart.
#[derive(Clone, Debug, PartialEq)]
pub struct KeptBalance {
    /// When it was written.
    pub written: Timestamp,
    /// Shares and demands.
    pub learnt: Kept,
    /// Whose each of these demands is: the pool by its key, and the client.
    pub clients: Vec<(Demand, u64, Network)>,
}

/// Reads `balance.json`. A line that is not understood makes the file unreadable: half of what was learnt would send
/// clients where there is no room.
pub(super) fn decode(text: &[u8]) -> Result<KeptBalance, FileError> {
    let file: BalanceFile = state_wire::decode(text)?;
    bounded("clusters", file.acceptance.len(), CLUSTERS_MAX)?;
    bounded("pins", file.pins.len(), Shares::PINS_MAX)?;
    bounded("demands", file.demands.len(), DEMANDS_MAX)?;
    let mut kept =
        KeptBalance { written: file.written.parse().map_err(damaged)?, learnt: Kept::default(), clients: vec![] };
    for AcceptanceLine { cluster, near, spill } in file.acceptance {
        kept.learnt.acceptance.push((name(cluster)?, AcceptedShare { local: near, overflow: spill }));
    }
    for PinLine { demand, cluster } in file.pins {
        kept.learnt.pins.push((self::demand(&demand)?, name(cluster)?));
    }
    for line in file.demands {
        let demand = demand(&line.demand)?;
        kept.learnt.demands.push((demand, line.load, line.doubt, name(line.cluster)?));
        kept.clients.push((demand, number(&line.pool)?, line.client.parse().map_err(damaged)?));
    }
    Ok(kept)
}

/// The text of `balance.json`. Demands of which it is not known whose they are say nothing after a restart, and are left out.
pub(super) fn encode(kept: &KeptBalance) -> Vec<u8> {
    let KeptBalance { written, learnt, clients } = kept;
    let whose: HashMap<_, _> = clients.iter().map(|(demand, pool, client)| (*demand, (pool, client))).collect();
    let finite = learnt.demands.iter().filter(|(_, load, doubt, _)| load.is_finite() && doubt.is_finite());
    let demand = |(demand, load, doubt, cluster): &(Demand, f64, f64, ClusterName)| {
        let (pool, client) = whose.get(demand)?;
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

/// Reads what another server decided; what is not understood is not followed.
pub fn decode_decision(text: &[u8]) -> Result<(Shares, Caution), String> {
    read_decision(text).map_err(|error| error.to_string())
}

fn read_decision(text: &[u8]) -> Result<(Shares, Caution), FileError> {
    let note: DecisionNote = state_wire::decode(text)?;
    bounded("clusters", note.acceptance.len(), CLUSTERS_MAX)?;
    bounded("pins", note.pins.len(), Shares::PINS_MAX)?;
    let caution = CAUTIONS.into_iter().find(|(_, word)| *word == note.caution);
    let (caution, _) = caution.ok_or_else(|| FileError::Text(format!("{:.20} is no caution", note.caution)))?;
    let mut shares = Shares { epoch: note.epoch, ..Shares::default() };
    for AcceptanceLine { cluster, near, spill } in note.acceptance {
        shares.accepted.insert(name(cluster)?, AcceptedShare { local: near, overflow: spill });
    }
    for PinLine { demand, cluster } in note.pins {
        shares.pins.insert(self::demand(&demand)?, name(cluster)?);
    }
    Ok((shares, caution))
}

/// The text of what this server decided, for others.
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

fn bounded(what: &str, count: usize, most: usize) -> Result<(), FileError> {
    if count <= most { Ok(()) } else { Err(FileError::Text(format!("{count} {what}; {most} is the most"))) }
}

fn name(text: String) -> Result<ClusterName, FileError> {
    ClusterName::new(&text).map_err(damaged)
}

fn demand(text: &str) -> Result<Demand, FileError> {
    number(text).map(Demand)
}

fn number(text: &str) -> Result<u64, FileError> {
    u64::from_str_radix(text, 16).map_err(damaged)
}

fn hex(number: u64) -> String {
    format!("{number:016x}")
}

fn damaged(error: impl fmt::Display) -> FileError {
    FileError::Text(error.to_string())
}

/// As many clusters as can be balanced.
const CLUSTERS_MAX: usize = 65_535;
/// As many demands as are known one by one.
const DEMANDS_MAX: usize = 4_096;

#[cfg(test)]
mod tests {
    use super::*;

    fn kept() -> KeptBalance {
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
        KeptBalance { written: Timestamp::from_secs(200), learnt, clients }
    }

    #[test]
    fn what_is_written_is_read_back() {
        assert_eq!(decode(&encode(&kept())).unwrap(), kept());
    }

    #[test]
    fn a_decision_is_read_back_and_one_that_is_cut_or_odd_is_not_followed() {
        let KeptBalance { learnt, .. } = kept();
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
            assert_eq!(decode_decision(odd.as_bytes()).unwrap_err(), "it is damaged: odd is no caution");
        }
    }

    #[test]
    fn a_file_cut_at_any_byte_is_refused_whole() {
        let text = encode(&kept());
        assert!((0..text.len()).all(|end| decode(&text[..end]).is_err()));
    }

    #[test]
    fn what_has_no_size_or_no_client_is_not_written() {
        let mut odd = kept();
        odd.learnt.demands[0].1 = f64::NAN;
        odd.clients.pop();
        assert_eq!(decode(&encode(&odd)).unwrap().learnt.demands, []);
    }

    #[test]
    fn more_than_is_ever_kept_and_nonsense_are_refused() {
        let mut many = kept();
        many.learnt.pins = (0..=Shares::PINS_MAX as u64).map(|n| (Demand(n), many.learnt.pins[0].1.clone())).collect();
        let error = decode(&encode(&many)).unwrap_err().to_string();
        assert!(error.contains("1025 pins; 1024 is the most"), "{error}");
        let text = String::from_utf8(encode(&kept())).unwrap();
        for (sound, odd) in
            [("198.51.100.0/24", "198.51.100.0/99"), ("\"eu1\"", "\"\""), ("40000", "70000"), ("0.25", "\"x\"")]
        {
            assert!(text.contains(sound), "{text}");
            assert!(decode(text.replace(sound, odd).as_bytes()).is_err(), "{odd}");
        }
    }
}
