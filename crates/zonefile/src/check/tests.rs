use fairway_model::{AnswerMode, Diagnostic, Name};

use crate::{ZoneData, check_zone, read_zone};

/// Start of every zone of these tests.
const HEAD: &str = "$TTL 60\n@ SOA ns h 1 1h 15m 2w 5m\n@ NS ns\nns A 192.0.2.1\n";

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

/// Checks a zone with these steered names; those that contain `alias` are answered with a CNAME.
fn check(text: &str, steered: &[&str]) -> (ZoneData, Vec<Diagnostic>) {
    let steered: Vec<Name> = steered.iter().map(|text| name(text)).collect();
    let mut refuse = |_: &str| Err("no files here".to_owned());
    let (mut zone, diagnostics) = read_zone(&name("e.test"), "z", text.as_bytes(), &mut refuse);
    assert_eq!(diagnostics, []);
    let mode = |name: &Name| if name.to_string().contains("alias") { AnswerMode::Cname } else { AnswerMode::Address };
    let diagnostics = check_zone(&mut zone, &|name| steered.contains(name).then(|| mode(name)));
    (zone, diagnostics)
}

/// Returns the diagnostics of a zone with the usual start and these lines; warnings begin with `warning`.
fn found(lines: &str) -> Vec<String> {
    check(&format!("{HEAD}{lines}"), &[]).1.iter().map(|fault| fault.to_string().replace("z:", "")).collect()
}

#[track_caller]
fn error(lines: &str, line: u32, part: &str) {
    let found = found(lines);
    let expected = format!("{line}:1: ");
    let hit = found.iter().any(|f| f.starts_with(&expected) && !f.contains("warning") && f.contains(part));
    assert!(hit, "{found:#?}");
}

#[track_caller]
fn warning(lines: &str, line: u32, part: &str) {
    let found = found(lines);
    let expected = format!("{line}:1: warning: ");
    assert!(found.iter().any(|f| f.starts_with(&expected) && f.contains(part)), "{found:#?}");
    assert!(found.iter().all(|f| f.contains("warning")), "{found:#?}");
}

#[track_caller]
fn fine(lines: &str) {
    assert_eq!(found(lines), <[String; 0]>::default());
}

#[test]
fn apex_without_soa_or_ns_is_rejected() {
    let diagnostics = check("$TTL 60\na A 192.0.2.1\n", &[]).1;
    assert_eq!(diagnostics.len(), 2);
    assert!(diagnostics.iter().all(Diagnostic::is_error));
    assert!(diagnostics[0].fact.contains("no SOA") && diagnostics[1].fact.contains("no NS"));
    error("@ SOA ns h 2 1h 15m 2w 5m\n", 5, "2 different SOA");
    error("a SOA ns h 2 1h 15m 2w 5m\n", 5, "not the zone apex");
}

#[test]
fn usual_zone_has_no_diagnostics() {
    fine("");
    fine("@ MX 10 mail\nmail AAAA 2001:db8::1\n_sip._udp SRV 1 1 5060 mail\nwww CNAME elsewhere.example.\n");
    fine(
        "sub NS ns.sub\nsub DS 1 8 2 0000000000000000000000000000000000000000000000000000000000000000\nns.sub A 192.0.2.7\n",
    );
    fine("@ MX 0 .\n_no._tcp SRV 0 0 0 .\n@ NS ns.elsewhere.example.\n");
}

#[test]
fn cname_with_other_data_is_rejected_except_dnssec_types() {
    error("c CNAME x.\nc A 192.0.2.1\n", 5, "CNAME and A");
    error("c A 192.0.2.1\nc CNAME x.\n", 6, "CNAME and A");
    error("c CNAME x.\nC CNAME y.\n", 6, "2 different CNAME");
    error("c CNAME x.\nc DNAME y.\n", 5, "CNAME and DNAME");
    error("@ CNAME x.\n", 5, "CNAME and SOA");
    fine("c CNAME x.\nc NSEC d CNAME NSEC\n");
}

#[test]
fn second_dname_and_names_below_a_dname_are_reported() {
    error("d DNAME x.\nd DNAME y.\n", 6, "2 different DNAME");
    warning("d DNAME x.\na.d A 192.0.2.1\n", 6, "the DNAME at d.e.test. hides it");
    warning("d DNAME x.\n@ MX 1 a.d\n", 6, "DNAME at d.e.test. renames");
    error("d DNAME x.\n@ NS a.d\n", 6, "DNAME at d.e.test. renames");
    warning("*.d DNAME x.\n", 5, "wildcard with a DNAME");
    fine("d DNAME x.\nd A 192.0.2.1\n");
}

#[test]
fn name_server_of_apex_without_address_or_with_alias_is_rejected() {
    error("@ NS c\n", 5, "NS points to c.e.test., which has no A or AAAA");
    error("@ NS c\nc CNAME ns\n", 5, "is a CNAME");
    error("@ NS ns.e.test\n", 5, "end the name with a dot if you mean ns.e.test.");
    fine("@ NS x.w\n*.w A 192.0.2.3\n");
    error("@ NS x.y.w\n*.w A 192.0.2.3\ny.w TXT stops\n", 5, "no A or AAAA");
}

#[test]
fn name_server_of_delegation_without_address_or_with_alias_is_a_warning() {
    warning("sub NS c\n", 5, "NS points to c.e.test., which has no A or AAAA");
    warning("sub NS c\nc CNAME ns\n", 5, "NS points to c.e.test., which is a CNAME");
    warning("sub NS a.d\nd DNAME x.\n", 5, "DNAME at d.e.test. renames");
}

#[test]
fn mail_and_service_targets_without_address_are_warnings() {
    warning("@ MX 1 c\nc CNAME ns\n", 5, "is a CNAME");
    warning("@ MX 1 c\n", 5, "no A or AAAA");
    warning("_a._tcp SRV 1 1 1 c\nc CNAME ns\n", 5, "is a CNAME");
    warning("_a._tcp SRV 1 1 1 c\n", 5, "no A or AAAA");
    warning("@ MX 1 192.0.2.1\n192.0.2.1 A 192.0.2.1\n", 5, "looks like an address");
    warning("@ MX 1 192.0.2.1.\n", 5, "looks like an address");
    warning("@ MX 1 a_b.example.\n", 5, "not a valid host name");
}

#[test]
fn delegation_needs_glue_only_for_servers_inside_it() {
    warning("sub NS ns.sub\n", 5, "no glue");
    warning("sub NS sub\n", 5, "no glue");
    fine("sub NS sub\nsub A 192.0.2.4\n");
    fine("sub NS ns.sub\nns.sub A 192.0.2.1\nother NS ns2.sub\n");
}

#[test]
fn data_below_a_delegation_is_hidden_unless_it_is_glue() {
    warning("sub NS ns\nx.sub TXT a\n", 6, "TXT data of x.sub.e.test. is never answered");
    warning("sub NS ns\nx.sub A 192.0.2.1\n", 6, "never answered");
    warning("sub NS ns\nsub TXT a\n", 6, "never answered");
    warning("sub NS ns\nx.sub NS ns\n", 6, "the delegation at sub.e.test. hides it");
    error("*.w NS ns\n", 5, "wildcard");
}

#[test]
fn ds_outside_delegations_is_reported() {
    let digest = "00".repeat(32);
    error(&format!("@ DS 1 8 2 {digest}\n"), 5, "belongs in the parent");
    warning(&format!("d DS 1 8 2 {digest}\n"), 5, "no NS records");
}

#[test]
fn duplicates_are_dropped_ignoring_case_of_names() {
    let (zone, diagnostics) = check(&format!("{HEAD}NS A 192.0.2.1\n@ NS NS\nt TXT a\nt TXT A\n"), &[]);
    assert_eq!(diagnostics, []);
    let lines: Vec<u32> = zone.records.iter().map(|record| record.line).collect();
    assert_eq!(lines, [2, 3, 4, 7, 8]);
}

#[test]
fn different_ttls_in_an_rrset_become_the_smallest() {
    let (zone, diagnostics) = check(&format!("{HEAD}ns 30 A 192.0.2.2\nns 90 A 192.0.2.3\nns 70 AAAA ::1\n"), &[]);
    assert_eq!(diagnostics.len(), 1, "{diagnostics:?}");
    assert!(!diagnostics[0].is_error() && diagnostics[0].location.line == 4, "{diagnostics:?}");
    let ttls: Vec<u32> = zone.records.iter().map(|record| record.ttl.secs()).collect();
    assert_eq!(ttls, [60, 60, 30, 30, 30, 70]);
}

#[test]
fn signatures_keep_their_own_ttls() {
    let signature = |kind, ttl| format!("ns {ttl} RRSIG {kind} 13 3 60 20300101000000 20250101000000 1 e.test. AAAA\n");
    fine(&format!("{}{}", signature("A", 60), signature("AAAA", 30)));
}

#[test]
fn rrset_larger_than_a_message_is_rejected() {
    let string = format!("\"{}\" ", "x".repeat(255));
    fine(&format!("big TXT {}\n", string.repeat(242)));
    let many: String = (0..300).map(|n| format!("many TXT {n} \"{}\"\n", "x".repeat(250))).collect();
    error(&many, 5, "the maximum is 65535");
}

#[test]
fn alias_mode_with_others_or_with_parameters_is_reported() {
    warning("s HTTPS 0 x.\ns HTTPS 1 . port=1\n", 5, "priority 0 next to others");
    warning("s SVCB 0 x. port=1\n", 5, "which clients ignore");
    fine("s HTTPS 0 x.\n");
}

#[test]
fn invalid_host_names_and_mailboxes_are_warnings() {
    warning("a_b A 192.0.2.1\n", 5, "not a valid host name");
    fine("*.a A 192.0.2.1\n_dmarc TXT x\n");
    let diagnostics = check("$TTL 60\n@ SOA ns h@e.test. 1 1h 15m 2w 5m\n@ NS ns\nns A 192.0.2.1\n", &[]).1;
    assert!(diagnostics.len() == 1 && diagnostics[0].fact.contains("contains an @"), "{diagnostics:?}");
}

#[test]
fn steered_name_has_addresses_and_rejects_those_of_the_file() {
    let (_, diagnostics) = check(
        &format!("{HEAD}@ NS s\n@ MX 1 s\n@ MX 2 any.w\n_a._tcp SRV 1 1 1 s\nwww CNAME s\ns TXT static\n"),
        &["s.e.test", "*.w.e.test"],
    );
    assert_eq!(diagnostics, []);
    for line in ["s A 192.0.2.9", "s AAAA ::1", "s CNAME x."] {
        let (_, diagnostics) = check(&format!("{HEAD}{line}\n"), &["s.e.test"]);
        assert!(
            diagnostics.len() == 1 && diagnostics[0].is_error() && diagnostics[0].location.line == 5,
            "{line} {diagnostics:?}"
        );
    }
    // An exact name next to a steered wildcard is not steered.
    assert_eq!(check(&format!("{HEAD}own.w A 192.0.2.9\n"), &["*.w.e.test"]).1, []);
}

#[test]
fn steered_name_with_mode_cname_is_reported_as_a_target_like_an_alias() {
    let found = |lines: &str| check(&format!("{HEAD}{lines}\n"), &["alias.e.test", "*.alias.e.test"]).1;
    let apex = found("@ NS alias");
    let expected = "z:5:1: NS points to alias.e.test., whose pool answers with a CNAME (RFC 2181 section 10.3); \
                    point to a name that has an address, or set mode of its pool to address";
    assert_eq!(apex.iter().map(ToString::to_string).collect::<Vec<_>>(), [expected]);
    for line in ["sub NS alias", "@ MX 1 alias", "_a._tcp SRV 1 1 1 alias", "@ MX 1 any.alias"] {
        let diagnostics = found(line);
        let [diagnostic] = &diagnostics[..] else { panic!("{line} {diagnostics:?}") };
        assert!(!diagnostic.is_error() && diagnostic.location.line == 5, "{line} {diagnostic}");
        assert!(diagnostic.fact.contains("whose pool answers with a CNAME"), "{line} {diagnostic}");
    }
    assert_eq!(found("www CNAME alias"), []);
}

#[test]
fn number_of_diagnostics_is_bounded() {
    let lines: String = (0..500).map(|n| format!("@ NS x{n}\n@ MX 1 x{n}\n")).collect();
    let diagnostics = check(&format!("{HEAD}{lines}"), &[]).1;
    assert_eq!(diagnostics.len(), 202);
    assert!(diagnostics.iter().any(|f| f.is_error() && f.fact == "and 400 more errors"));
    assert!(diagnostics.iter().any(|f| !f.is_error() && f.fact == "and 400 more warnings"));
}
