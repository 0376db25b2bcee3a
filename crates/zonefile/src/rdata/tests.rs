use fairway_model::{Name, Rtype};

use super::{rdata_from_text, rdata_text, wire::check};

fn hex(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

fn read(rtype: &str, text: &str) -> Result<String, String> {
    let origin: Name = "o.test".parse().unwrap();
    let rdata = rdata_from_text(rtype.parse().unwrap(), text.as_bytes(), &origin);
    rdata.map(|rdata| hex(&rdata)).map_err(|error| error.to_string())
}

#[test]
fn types_newer_than_bind_9_18_follow_their_rfcs() {
    for (rtype, text, expected) in [
        // RFC 9859 section 2.2, RFC 9606, IANA's registry for the others.
        ("DSYNC", "CDS NOTIFY 5359 scanner.", "003b0114ef077363616e6e657200"),
        ("DSYNC", "TYPE65280 128 0 .", "ff0080000000"),
        (
            "RESINFO",
            "qnamemin exterr=15-17 infourl=x",
            "08716e616d656d696e0c6578746572723d31352d313709696e666f75726c3d78",
        ),
        ("WALLET", "BTC addr", "034254430461646472"),
        ("CLA", "\"a b\"", "03612062"),
        ("IPN", "4294967298", "0000000100000002"),
        ("HHIT", "AQI=", "0102"),
        ("BRID", "AwQ=", "0304"),
    ] {
        assert_eq!(read(rtype, text).as_deref(), Ok(expected), "{rtype} {text}");
    }
}

#[test]
fn examples_of_rfc_9460_have_the_wire_form_of_the_rfc() {
    // Appendix D.1 and D.2.
    for (text, expected) in [
        ("0 foo.example.com.", "000003666f6f076578616d706c6503636f6d00"),
        ("1 .", "000100"),
        ("16 foo.example.com. port=53", "001003666f6f076578616d706c6503636f6d00000300020035"),
        ("1 foo.example.com. key667=hello", "000103666f6f076578616d706c6503636f6d00029b000568656c6c6f"),
        (
            "1 foo.example.com. key667=\"hello\\210qoo\"",
            "000103666f6f076578616d706c6503636f6d00029b000968656c6c6fd2716f6f",
        ),
        (
            "1 foo.example.com. ipv6hint=\"2001:db8::1,2001:db8::53:1\"",
            "000103666f6f076578616d706c6503636f6d000006002020010db800000000000000000000000120010db8000000000000000000530001",
        ),
        (
            "16 foo.example.org. alpn=\"f\\\\\\\\oo\\\\,bar,h2\"",
            "001003666f6f076578616d706c65036f7267000001000c08665c6f6f2c626172026832",
        ),
        (
            "16 foo.example.org. (\n alpn=h2,h3-19 mandatory=ipv4hint,alpn\n ipv4hint=192.0.2.1 )",
            "001003666f6f076578616d706c65036f7267000000000400010004000100090268320568332d3139000400 04c0000201",
        ),
    ] {
        assert_eq!(read("SVCB", text), Ok(expected.replace(' ', "")), "{text}");
    }
}

#[test]
fn alternative_spellings_have_the_same_wire_form() {
    for (rtype, one, other) in [
        ("A", "192.0.2.1", "\\# 4 C0 0002 01"),
        ("TLSA", "DANE-EE SPKI SHA2-256 00ff", "3 1 1 00 FF"),
        (
            "DS",
            "1 ED25519 SHA-1 00112233445566778899aabbccddeeff00112233",
            "1 15 1 00112233445566778899AABBCCDDEEFF 00112233",
        ),
        ("CERT", "pkix 1 rsasha256 AQID", "1 1 8 AQ ID"),
        ("KEY", "49152 3 5", "\\# 4 c0000305"),
        ("KEY", "256 DNSSEC RSASHA1 AQID", "256 3 5 AQID"),
        (
            "RRSIG",
            "A 5 3 1d 20030322173103 20030220173103 2642 o.test. AA==",
            "A 5 3 86400 1048354263 1045762263 2642 @ AA==",
        ),
        ("NSEC", "a TYPE1 aaaa TYPE65280", "a A TYPE28 TYPE65280 A"),
        ("LOC", "1 N 2 E 3", "1 0 0.000 N 2 0 0.000 E 3.00m 1m 10000m 10m"),
        ("SOA", "a b 1 1h 1M 1w 1D", "a.o.test. b.o.test. 1 3600 60 604800 86400"),
        ("WKS", "192.0.2.1 tcp smtp domain", "192.0.2.1 6 25 53"),
        ("NAPTR", "1 2 s \"x\" \"\" .", "1 2 \"s\" x \"\" ."),
        ("NID", "1 0:ff:0:1", "1 0000:00ff:0000:0001"),
    ] {
        assert!(read(rtype, one).is_ok(), "{rtype} {one}: {:?}", read(rtype, one));
        assert_eq!(read(rtype, one), read(rtype, other), "{rtype} {one}");
    }
}

#[test]
fn invalid_rdata_is_rejected() {
    for line in include_str!("../../testdata/wrong-rdata.txt").lines().skip(1) {
        let (rtype, text) = line.split_once(' ').unwrap_or((line, ""));
        assert!(read(rtype, text).is_err(), "{line} is {:?}", read(rtype, text));
    }
}

#[test]
fn invalid_service_parameters_are_rejected() {
    // The failure cases of RFC 9460 appendix D.3 come first.
    for text in [
        "1 a key123=abc key123=def",
        "1 a mandatory",
        "1 a alpn",
        "1 a port",
        "1 a ipv4hint",
        "1 a ipv6hint",
        "1 a no-default-alpn=abc",
        "1 a mandatory=key123",
        "1 a mandatory=mandatory",
        "1 a mandatory=key123,key123 key123=abc",
        "1 a no-default-alpn",
        "1 a alpn=",
        "1 a alpn=a,,b",
        "1 a alpn=,a",
        "1 a port=65536",
        "1 a port=1,2",
        "1 a ipv4hint=1.2.3",
        "1 a ipv4hint=1.2.3.4,",
        "1 a ipv6hint=1.2.3.4",
        "1 a ech",
        "1 a ech=$",
        "1 a nokey=1",
        "1 a key01=1",
        "1 a key65536=1",
        "1 a key65535=1",
        "1 a \"port=1\"",
        "1 a key3=1",
        "1 a key1=h2",
        "1 a port=\"1",
        "1 a dohpath=x",
        "1 a ohttp=1",
        "1 a KEY7=x",
        "1",
        "1 a =",
        "\\# 7 000100 0003 0001",
        "\\# 15 000100 00030002 0001 00010003026832",
    ] {
        assert!(read("HTTPS", text).is_err(), "{text} is {:?}", read("HTTPS", text));
    }
}

#[test]
fn malformed_wire_form_is_rejected_with_a_reason() {
    let error = check(Rtype::MX, &[0, 1, 0xc0, 0x0c]).unwrap_err();
    assert_eq!(error, "a name has a label over 63 octets, or is compressed");
    let long = vec![0; 70_000];
    assert!(check(Rtype(65280), &long).is_err() && check(Rtype(65280), &long[..65_535]).is_ok());
    assert!(rdata_text(Rtype(65280), &long).starts_with("\\# 70000 00"));
    assert!(read("TXT", "a\nb").is_err());
}
