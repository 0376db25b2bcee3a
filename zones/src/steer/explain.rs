//! Explanation of a choice: each member in or out of the answer, with the reason.
//!
//! Nothing is decided here. The [`Recorder`] observes the decision that answers queries.

use std::{collections::BTreeSet, net::IpAddr, sync::Arc};

use fairway_model::{ClusterName, Health, OverrideAction, Policy, PoolName, Rtype, Selection, Spread, Weight};

use super::{
    answer::{Answer, Assignment, Basis, Candidacy, Choice, Family, Kind},
    client_net::ClientNet,
    eligibility::{DOWN, EXHAUSTED, EligibilitySet, NOT_OUT, PENDING, eligibility},
    pool::SteerPool,
    proof::{Proof, Terms},
    trace::Trace,
    views::MemberSet,
};
use crate::{client::Draw, runtime::RuntimeState, schedules::ScheduleStatus, target::TargetIndex};

/// An explained decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The pool.
    pub pool: PoolName,
    /// Its policy.
    pub policy: Policy,
    /// Question to the pool.
    pub kind: Kind,
    /// Answer of the pool.
    pub choice: Choice,
    /// Client as the pool groups clients.
    pub client: ClientNet,
    /// Input of the hash.
    pub input: HashInput,
    /// Numbers behind the choice.
    pub proof: Proof,
    /// Rule that assigned the client, in a pool that balances by load.
    pub assignment: Option<Assignment>,
    /// Tiers of the members that the last stage read, sorted. Empty for a down answer that is not a choice among
    /// members.
    pub tiers: Vec<u8>,
    /// Every member, in declared order.
    pub members: Vec<MemberNote>,
}

impl Explanation {
    /// True if the pool denies the type that was asked.
    pub(crate) fn is_denial(&self, rtype: Rtype) -> bool {
        let is_asked = self.kind == Kind::Cname || matches!(rtype, Rtype::A | Rtype::AAAA);
        is_asked && matches!(self.choice.answer, Answer::Nothing | Answer::FallbackAddresses)
    }
}

/// Input of a choice apart from the pool and its runtime state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HashInput {
    /// Nothing: every client gets the same answer.
    Everyone,
    /// The client's network, whose length is the ECS scope.
    Client(ClientNet),
    /// The draw of the query.
    Draw(u64),
}

/// A member of an explained decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberNote {
    /// The cluster.
    pub cluster: ClusterName,
    /// Declared weight.
    pub weight: Weight,
    /// Its tier.
    pub tier: u8,
    /// Group in the order of the client's location class, from 0. `None` if it is hidden from the client.
    pub group: Option<u8>,
    /// True if it is answered only if no member of weight 1 or more can be.
    pub standby: bool,
    /// Numbers of the member.
    pub terms: Terms,
    /// Status of its schedule. `None` for a member that is always open.
    pub schedule: Option<Arc<ScheduleStatus>>,
    /// Result of the last stage for it. `None` if the stage did not read it.
    pub candidacy: Option<Candidacy>,
    /// Addresses of both families.
    pub addresses: Vec<AddressNote>,
    /// Reason why it is in or out.
    pub reason: Reason,
}

/// Address of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressNote {
    /// The address.
    pub address: IpAddr,
    /// Target that is probed for it.
    pub target: TargetIndex,
    /// Health of the target.
    pub health: Health,
}

/// Reason why a member is in or out of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, strum::Display)]
pub enum Reason {
    /// In: chosen.
    #[strum(to_string = "chosen")]
    Chosen,
    /// In: no member is live, and all are answered.
    #[strum(to_string = "answered with all others, since no member is live")]
    AnsweredAll,
    /// Out: another member has a better score for this client.
    #[strum(to_string = "available, but this client gets another member")]
    NotChosen,
    /// Out: load control assigns the client's slot to another cluster.
    #[strum(to_string = "load control assigns this client to another cluster")]
    OtherSlot,
    /// Out: an earlier member is live.
    #[strum(to_string = "an earlier member comes first")]
    Later,
    /// Out: only some of its addresses are admitted, and a whole member is available.
    #[strum(to_string = "only some of its addresses are available, and a whole member comes first")]
    PartlyUp,
    /// Out: a lower tier is in use.
    #[strum(to_string = "an earlier tier is in use")]
    LaterTier,
    /// Out: standby, and a member of weight 1 or more is available.
    #[strum(to_string = "standby: a member of weight 1 or more comes first")]
    Standby,
    /// Out: it has no address of the family.
    #[strum(to_string = "has no address of this family")]
    LacksFamily,
    /// Out: only addresses of the other family are admitted.
    #[strum(to_string = "available in the other family only")]
    OtherFamily,
    /// Out: not a last-good member.
    #[strum(to_string = "not a last-good member")]
    NotLastGood,
    /// Out: the gateways of its cluster drain or are overloaded, and another member is up.
    #[strum(to_string = "exhausted: its gateways drain or are overloaded")]
    Exhausted,
    /// Out: never evaluated.
    #[strum(to_string = "pending: never evaluated")]
    Pending,
    /// Out: its probes fail.
    #[strum(to_string = "down")]
    Down,
    /// Out: an override sets it down.
    #[strum(to_string = "set down by an override")]
    ForcedDown,
    /// Out: drained.
    #[strum(to_string = "drained")]
    Drained,
    /// Out: no network of the member contains the client, or the client prefers other regions only.
    #[strum(to_string = "hidden from this client by the member's networks or by a preference with only")]
    HiddenFromClient,
    /// Out: internal, and the zone is public.
    #[strum(to_string = "internal: never answered in a public zone")]
    Internal,
    /// Out: none of its windows is open.
    #[strum(to_string = "closed by its schedule")]
    Closed,
}

impl MemberNote {
    /// Returns the reason as text. For a closed member it includes the time of opening.
    pub fn why(&self) -> String {
        match (&self.schedule, self.reason) {
            (Some(schedule), Reason::Closed) => schedule.to_string(),
            (_, reason) => reason.to_string(),
        }
    }
}

impl Reason {
    /// True if the member is in the answer.
    pub fn is_in(self) -> bool {
        matches!(self, Self::Chosen | Self::AnsweredAll)
    }
}

impl SteerPool {
    /// Chooses and explains the choice.
    pub fn explain(&self, kind: Kind, runtime: &RuntimeState, client: ClientNet, draw: Draw) -> Explanation {
        let mut recorder = Recorder::default();
        self.choose(kind, runtime, client, draw, &mut recorder);
        recorder.into_explanation().expect("a decision was recorded")
    }
}

/// Trace that records the last decision.
#[derive(Debug, Default)]
pub struct Recorder {
    explanation: Option<Explanation>,
    /// The answer with every address of the family.
    everyone: Option<Answer>,
    /// Members that the pool's zone hides.
    internal: MemberSet,
}

impl Recorder {
    /// Returns the last decision, if there was one.
    pub fn into_explanation(self) -> Option<Explanation> {
        self.explanation
    }
}

impl Trace for Recorder {
    fn begin(&mut self, pool: &SteerPool, kind: Kind, runtime: &RuntimeState, client: ClientNet, draw: Draw) {
        let hashes = pool.chooses.is_by_client() || pool.load;
        let input = match (hashes, pool.spread) {
            (true, Spread::Query) => HashInput::Draw(draw.0),
            _ if pool.tells_clients_apart() => HashInput::Client(client),
            (true, Spread::Client) => HashInput::Client(client),
            (false, _) => HashInput::Everyone,
        };
        self.internal = pool.details.internal;
        self.everyone = match kind {
            Kind::Addresses(family) => pool.plans[family as usize].everyone(client.class()).map(Answer::Set),
            Kind::Cname => None,
        };
        self.explanation = Some(Explanation {
            pool: pool.name().clone(),
            policy: pool.policy().clone(),
            kind,
            client,
            assignment: None,
            choice: Choice::without_members(Answer::Nothing, Basis::NoFamily),
            input,
            proof: Proof::new(pool, runtime, client, draw),
            tiers: Vec::new(),
            members: member_notes(pool, runtime, client),
        });
    }

    fn stage(&mut self, _basis: Basis) {
        let Some(explanation) = &mut self.explanation else { return };
        explanation.assignment = None;
        for member in &mut explanation.members {
            member.candidacy = None;
        }
    }

    fn member(&mut self, number: u8, candidacy: Candidacy) {
        let Some(explanation) = &mut self.explanation else { return };
        explanation.members[usize::from(number)].candidacy = Some(candidacy);
    }

    fn assigned(&mut self, assignment: Assignment) {
        let Some(explanation) = &mut self.explanation else { return };
        explanation.assignment = Some(assignment);
    }

    fn end(&mut self, choice: &Choice) {
        let Some(explanation) = &mut self.explanation else { return };
        explanation.choice = *choice;
        let read = explanation.members.iter().filter(|member| member.candidacy.is_some());
        explanation.tiers = read.clone().map(|member| member.tier).collect::<BTreeSet<_>>().into_iter().collect();
        let last = read.map(|member| (member.standby, member.tier)).max();
        let everyone = choice.basis == Basis::Down && Some(choice.answer) == self.everyone;
        for number in (0..=u8::MAX).take(explanation.members.len()) {
            let reason = match explanation.members[usize::from(number)].group {
                None if self.internal.contains(number) => Reason::Internal,
                None => Reason::HiddenFromClient,
                Some(_) => match reason(explanation, number, last) {
                    reason @ (Reason::LacksFamily | Reason::Closed) => reason,
                    _ if everyone => Reason::AnsweredAll,
                    reason => reason,
                },
            };
            explanation.members[usize::from(number)].reason = reason;
        }
    }
}

/// Returns the members before the decision, with declaration and health.
fn member_notes(pool: &SteerPool, runtime: &RuntimeState, client: ClientNet) -> Vec<MemberNote> {
    let mut members: Vec<_> = pool.members.iter().collect();
    members.sort_by_key(|m| m.number);
    let group = |number: u8| {
        let mut class = pool.orders.class(client.class()).iter();
        class.find(|step| pool.members[usize::from(step.index)].number == number).map(|step| step.group)
    };
    let note = |member: &&super::pool::Member| {
        let addresses = Family::BOTH.into_iter().flat_map(|family| {
            let set = &member.address_sets[family as usize];
            pool.addresses(member.number, family).enumerate().map(|(index, address)| {
                let target = pool.target_of(set, index);
                AddressNote { address, target, health: runtime.health(target) }
            })
        });
        MemberNote {
            cluster: pool.cluster(member.number).clone(),
            weight: Weight(pool.details.members[usize::from(member.number)].weight),
            tier: member.tier,
            group: group(member.number),
            standby: member.standby,
            terms: Terms::new(pool, runtime, client, member),
            schedule: pool.schedule_status(member.number, runtime).cloned(),
            candidacy: None,
            addresses: addresses.collect(),
            reason: Reason::NotChosen,
        }
    };
    members.iter().map(note).collect()
}

/// Returns the reason for a member that the client may see. `last` is standby and tier of the last member that the
/// stage read.
fn reason(explanation: &Explanation, number: u8, last: Option<(bool, u8)>) -> Reason {
    let (member, choice) = (&explanation.members[usize::from(number)], &explanation.choice);
    let asked = |note: &&AddressNote| match explanation.kind {
        Kind::Addresses(family) => family.holds(&note.address),
        Kind::Cname => true,
    };
    let mut addresses = member.addresses.iter().filter(asked).peekable();
    if choice.members.as_slice().contains(&number) {
        return Reason::Chosen;
    }
    if addresses.peek().is_none() {
        return Reason::LacksFamily;
    }
    if member.schedule.as_ref().is_some_and(|schedule| !schedule.state.open) {
        return Reason::Closed;
    }
    let Some(last) = last else { return state(addresses) };
    // The others were not read.
    if explanation.assignment == Some(Assignment::Slot) && member.candidacy.is_none() {
        return match state(addresses) {
            Reason::NotChosen => Reason::OtherSlot,
            reason => reason,
        };
    }
    match (member.candidacy, explanation.policy.selection) {
        (Some(Candidacy::Candidate), Selection::Weighted) => Reason::NotChosen,
        (Some(Candidacy::Candidate), Selection::First) => Reason::Later,
        (Some(Candidacy::Partial), _) => Reason::PartlyUp,
        (Some(Candidacy::Elsewhere), _) => Reason::OtherFamily,
        (Some(Candidacy::Excluded), _) => Reason::NotLastGood,
        (Some(Candidacy::Closed | Candidacy::Ineligible), _) => state(addresses),
        (None, _) if member.standby && !last.0 => Reason::Standby,
        (None, _) if (member.standby, member.tier) > last => Reason::LaterTier,
        (None, _) => Reason::Later,
    }
}

/// Returns the reason why none of these addresses is admitted.
fn state<'a>(addresses: impl Iterator<Item = &'a AddressNote>) -> Reason {
    let (mut seen, mut forced): (EligibilitySet, _) = (0, None);
    for note in addresses {
        seen |= eligibility(note.health);
        forced = forced.or_else(|| note.health.override_action());
    }
    match forced {
        _ if seen & EXHAUSTED != 0 => Reason::Exhausted,
        _ if seen & NOT_OUT == PENDING => Reason::Pending,
        _ if seen & DOWN != 0 => Reason::Down,
        Some(OverrideAction::Drain) => Reason::Drained,
        Some(OverrideAction::Down) => Reason::ForcedDown,
        _ => Reason::NotChosen,
    }
}
