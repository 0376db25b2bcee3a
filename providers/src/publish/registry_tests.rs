use super::*;

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

fn set(of: &str, rtype: Rtype, rdatas: &[&[u8]]) -> ProviderRecordSet {
    let rdatas = rdatas.iter().map(|rdata| Box::from(*rdata));
    ProviderRecordSet::plain(RecordSet::new(name(of), rtype, Ttl::STEERED, rdatas))
}

fn txt(of: &str, text: &str) -> ProviderRecordSet {
    set(of, Rtype::TXT, &[&[&[text.len() as u8], text.as_bytes()].concat()])
}

fn ours() -> Ownership {
    Ownership::Txt { affix: Affix::default(), owner: "us".to_owned(), key: None }
}

fn owner(read: Vec<ProviderRecordSet>, of: &ProviderRecordSet) -> Owner {
    ours().sort(read, &Claims::new(), &BTreeSet::new()).sets[&of.key()].owner.clone()
}

const ADDRESS: &[&[u8]] = &[&[192, 0, 2, 1]];

#[test]
fn owner_follows_from_the_registry_record() {
    let www = set("www.x.", Rtype::A, ADDRESS);
    assert_eq!(owner(vec![www.clone()], &www), Owner::Nobody);
    let said = |who: &str| txt("a-www.x.", &format!("heritage=external-dns,external-dns/owner={who}"));
    assert_eq!(owner(vec![www.clone(), said("us")], &www), Owner::Us);
    assert_eq!(owner(vec![www.clone(), said("them")], &www), Owner::Other("them".to_owned()));
    // A name without a type, as up to 0.17; never for AAAA.
    let untyped = txt("www.x.", "heritage=external-dns,external-dns/owner=them");
    assert_eq!(owner(vec![www.clone(), untyped.clone()], &www), Owner::Other("them".to_owned()));
    let six = set("www.x.", Rtype::AAAA, &[&[0; 16]]);
    assert_eq!(owner(vec![six.clone(), untyped], &six), Owner::Nobody);
}

#[test]
fn registry_record_of_one_name_does_not_claim_another() {
    // The name is that for AAAA records of b.x., and that for aaaa-b.x. without a type.
    let read =
        vec![set("aaaa-b.x.", Rtype::A, ADDRESS), txt("aaaa-b.x.", "heritage=external-dns,external-dns/owner=us")];
    assert_eq!(owner(read.clone(), &read[0]), Owner::Nobody);
}

#[test]
fn set_with_two_owners_is_not_owned() {
    let www = set("www.x.", Rtype::A, ADDRESS);
    let [us, them] =
        ["us", "them"].map(|who| txt("a-www.x.", &format!("heritage=external-dns,external-dns/owner={who}")));
    let both = set("a-www.x.", Rtype::TXT, &[&us.set.rdatas[0], &them.set.rdatas[0]]);
    assert_eq!(owner(vec![www.clone(), both], &www), Owner::Other("them".to_owned()));
}

#[test]
fn registry_records_are_no_data_and_other_txt_records_are() {
    let read = vec![txt("a-www.x.", "heritage=external-dns,external-dns/owner=us"), txt("x.", "v=spf1 -all")];
    let current = ours().sort(read, &Claims::new(), &BTreeSet::new());
    assert_eq!(current.sets.keys().map(|key| key.name.clone()).collect::<Vec<_>>(), [name("x.")]);
}

#[test]
fn note_counts_only_for_the_noted_records() {
    let www = set("www.x.", Rtype::A, ADDRESS);
    let claim = Claim { records: www.set.rdatas.to_vec(), is_pending: false };
    let claims = Claims::from([(www.key(), claim)]);
    let sorted = ours().sort(vec![www.clone()], &claims, &BTreeSet::new());
    assert_eq!(sorted.sets[&www.key()].owner, Owner::Us);
    // The missing half is written.
    let units = ours().units(Changes::default(), &[www.key()], &sorted);
    assert_eq!(units[0].changes.create[0].set.name, name("a-www.x."));
    let other = set("www.x.", Rtype::A, &[&[192, 0, 2, 9]]);
    let sorted = ours().sort(vec![other.clone()], &claims, &BTreeSet::new());
    assert_eq!(sorted.sets[&other.key()].owner, Owner::Nobody);
}

#[test]
fn registry_record_without_a_set_is_removed() {
    let read = vec![txt("a-gone.x.", "heritage=external-dns,external-dns/owner=us")];
    let sorted = ours().sort(read, &Claims::new(), &BTreeSet::new());
    let units = ours().units(Changes::default(), &[], &sorted);
    assert_eq!(units[0].changes.delete[0].set.name, name("a-gone.x."));
    let read = vec![txt("a-gone.x.", "heritage=external-dns,external-dns/owner=them")];
    let sorted = ours().sort(read, &Claims::new(), &BTreeSet::new());
    assert!(ours().units(Changes::default(), &[], &sorted).is_empty());
}

#[test]
fn strings_of_others_in_a_registry_record_stay() {
    let www = set("www.x.", Rtype::A, ADDRESS);
    let mixed = set("a-www.x.", Rtype::TXT, &[&Mark::of("us").rdata(None, &Name::root()), b"\x05other"]);
    let sorted = ours().sort(vec![www.clone(), mixed], &Claims::new(), &BTreeSet::new());
    let units = ours().units(Changes { delete: vec![www], ..Changes::default() }, &[], &sorted);
    assert_eq!(*units[0].changes.update[0].to.set.rdatas, [Box::from(*b"\x05other")]);
}
