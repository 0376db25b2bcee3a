//! The query log: adds to each sample the names of its pool and clusters. On the thread of the log, never on one that answers.

use std::{io, net::IpAddr, sync::Arc};

use domain::{
    base::{Message, ParsedName, ToName},
    rdata::ZoneRecordData,
};
use fairway_config::QueryLogSink;
use fairway_control::{Published, Shared};
use fairway_model::{Cluster, Name, Network, PoolName, Rtype};
use fairway_telemetry::query_log::{self, QueryLog, QueryLogOptions, QuerySample};
use fairway_transport::Server;
use fairway_zones::{Draw, PlayedQuery, Player, Sample, ServingState, Transport};

/// Starts the query log, which follows the configuration.
pub(super) fn start(shared: &Arc<Shared>, server: &Server) -> io::Result<QueryLog> {
    let (shared, counters) = (Arc::clone(shared), server.counters().clone());
    let mut player = Player::default();
    QueryLog::start(Box::new(move |each| {
        let state = shared.serving.load();
        let (serving, published) = (&state.serving, &*state.published);
        let settings = published.configured.settings.query_log.as_ref();
        let one_in = settings.map_or(0, |settings| settings.one_in.get());
        for tally in counters.tallies_by_thread() {
            // Set each time, since a thread may have started meanwhile.
            tally.sample_every(one_in);
            tally.take_samples(|sample| each(described(sample, &mut player, serving, published)));
        }
        let sink = settings.map(|settings| match &settings.sink {
            QueryLogSink::Stdout => query_log::QueryLogSink::Stdout,
            QueryLogSink::File(path) => query_log::QueryLogSink::File(path.clone()),
        });
        QueryLogOptions { sink, opened: *shared.lifecycle.hang_ups.borrow() }
    }))
}

/// Returns a sample with what was answered, which is read from the response, and with the pool and the clusters that have it.
///
/// The pool is that of the name in the present configuration; its choice is not made again, since health or load may have changed since
/// the answer. After a reload within the last tenth of a second it may be another one, and then no cluster fits.
fn described(sample: Sample, player: &mut Player, serving: &ServingState, published: &Published) -> QuerySample {
    let Sample { at, client, subnet, transport, rcode, response } = sample;
    let has_question = response.get(4..6).is_some_and(|count| count != [0, 0]);
    let question = response.get(12..).filter(|_| has_question).unwrap_or_default().to_vec();
    let answer = Answer::of(&response);
    let mut pools = vec![];
    if let Some(played) = played(&question, client, subnet).filter(|_| !answer.is_empty()) {
        player.play(serving, &played, Draw(0), |choice| pools.push(choice.pool.name().clone()));
    }
    let clusters_of = |pool: &PoolName| clusters(published, pool, &answer);
    let found = pools.iter().map(|pool| (pool, clusters_of(pool))).reduce(|first, next| match first.1.is_empty() {
        true => next,
        false => first,
    });
    let (pool, clusters) = found.map_or_else(Default::default, |(pool, clusters)| (Some(pool.to_string()), clusters));
    let transport = match transport {
        Transport::Udp => "udp",
        Transport::Tcp => "tcp",
    };
    QuerySample { at, client, subnet, transport, rcode, question, pool, clusters, answer: answer.into_texts() }
}

/// Returns the query of a question in wire form; `None` if it is none for the zones.
fn played(question: &[u8], address: IpAddr, subnet: Option<Network>) -> Option<PlayedQuery> {
    let name = Name::from_wire(question).ok()?;
    let end = name.as_wire().len();
    let &[high, low, 0, 1] = question.get(end..end + 4)? else { return None };
    Some(PlayedQuery { name, rtype: Rtype(u16::from_be_bytes([high, low])), address, subnet })
}

/// Returns the clusters of a pool that have an address of the answer, or the name that it leads to.
fn clusters(published: &Published, pool: &PoolName, answer: &Answer) -> Vec<String> {
    let desired = &published.configured.merged.desired;
    let members = desired.pools.get(pool).map(|pool| &pool.members[..]).unwrap_or_default();
    let clusters = members.iter().filter_map(|member| desired.clusters.get(&member.cluster));
    clusters.filter(|cluster| answer.is_of(cluster)).map(|cluster| cluster.name.to_string()).collect()
}

/// Addresses and CNAME targets of a response.
#[derive(Debug, Default, PartialEq, Eq)]
struct Answer {
    aliases: Vec<Name>,
    addresses: Vec<IpAddr>,
}

impl Answer {
    /// Reads a response. Of a truncated one, the records that are complete.
    fn of(response: &[u8]) -> Self {
        let mut answer = Self::default();
        let Ok(message) = Message::from_slice(response) else { return answer };
        for record in message.answer().into_iter().flatten().map_while(Result::ok) {
            let Ok(Some(record)) = record.to_record::<ZoneRecordData<_, ParsedName<_>>>() else { continue };
            match record.data() {
                ZoneRecordData::A(data) => answer.addresses.push(data.addr().into()),
                ZoneRecordData::Aaaa(data) => answer.addresses.push(data.addr().into()),
                ZoneRecordData::Cname(data) => {
                    answer.aliases.extend(Name::from_wire(data.cname().to_vec().as_slice()).ok());
                }
                _ => {}
            }
        }
        answer
    }

    fn is_empty(&self) -> bool {
        self.aliases.is_empty() && self.addresses.is_empty()
    }

    /// True if it names the cluster.
    fn is_of(&self, cluster: &Cluster) -> bool {
        let has_name = cluster.dns_name.as_ref().is_some_and(|name| self.aliases.contains(name));
        has_name || cluster.addresses.iter().any(|address| self.addresses.contains(address))
    }

    fn into_texts(self) -> Vec<String> {
        let addresses = self.addresses.iter().map(ToString::to_string);
        self.aliases.iter().map(ToString::to_string).chain(addresses).collect()
    }
}
