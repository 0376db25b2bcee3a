//! Webhook providers: a scripted one that fails, the real external-dns with its in-memory provider, and Fairway's own.

use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, Instant},
};

use fairway_model::{Changes, Rtype};
use fairway_providers::{
    Json, MEDIA_TYPE,
    publish::{Obstacle, Provider, ProviderError, Wanted},
};

use crate::{
    publisher,
    scripted::{Act, Scripted, endpoints, well},
    set,
};

const TIMEOUT: Duration = Duration::from_secs(30);

fn say(status: u16) -> Act {
    Act::Say(status, "text/plain", "no".to_owned())
}

fn create(name: &str) -> Changes {
    Changes { create: vec![set(name, Rtype::A, &["203.0.113.1"])], ..Changes::default() }
}

#[tokio::test]
async fn sent_requests_match_the_contract() {
    let server = Scripted::start(well);
    let provider = server.provider(TIMEOUT);
    assert_eq!(provider.read().await.expect("null is an empty list"), []);
    let sets = vec![
        set("shop", Rtype::A, &["203.0.113.1"]),
        set("lead", Rtype::CNAME, &["shop.gslb.example."]),
        set("_web._tcp", Rtype::SRV, &["5 100 443 shop.pub.example."]),
        set("text", Rtype::TXT, &["\"a \\\"b\\\"\" \"c\""]),
    ];
    let adjusted = provider.adjust(sets.clone()).await.expect("it takes all");
    assert!(adjusted.len() == 4 && sets.iter().all(|set| adjusted.contains(set)), "{adjusted:?}");
    let changed = fairway_model::Update { from: sets[0].clone(), to: set("shop", Rtype::A, &["203.0.113.2"]) };
    let changes = Changes { create: sets[1..].to_vec(), update: vec![changed], ..Changes::default() };
    provider.apply(&changes).await.expect("204");
    let (asked, bodies): (Vec<_>, Vec<_>) = server.asked().into_iter().unzip();
    assert_eq!(asked, ["GET /", "GET /records", "GET /", "POST /adjustendpoints", "POST /records"]);
    let expected = r#"{"create":[{"dnsName":"lead.pub.example","targets":["shop.gslb.example"],"recordType":"CNAME","recordTTL":30},{"dnsName":"_web._tcp.pub.example","targets":["5 100 443 shop.pub.example."],"recordType":"SRV","recordTTL":30},{"dnsName":"text.pub.example","targets":["\"a \\\"b\\\"\" \"c\""],"recordType":"TXT","recordTTL":30}],"updateOld":[{"dnsName":"shop.pub.example","targets":["203.0.113.1"],"recordType":"A","recordTTL":30}],"updateNew":[{"dnsName":"shop.pub.example","targets":["203.0.113.2"],"recordType":"A","recordTTL":30}]}"#;
    assert_eq!(bodies[4], expected);
}

#[tokio::test]
async fn http_statuses_are_different_errors() {
    let server = Scripted::start(well);
    let provider = server.provider(TIMEOUT);
    for (status, is_refusal) in
        [(200, false), (400, true), (413, true), (422, true), (429, false), (500, false), (503, false)]
    {
        server.act(move |asked, body| if asked == "POST /records" { say(status) } else { well(asked, body) });
        let error = provider.apply(&create("a")).await.expect_err("it is not 204");
        assert_eq!(matches!(error, ProviderError::Refused(_)), is_refusal, "{status}: {error}");
    }
    for path in ["GET /", "GET /records", "POST /adjustendpoints"] {
        for status in [204, 301, 400, 404, 500] {
            server.act(move |asked, body| if asked == path { say(status) } else { well(asked, body) });
            let read = provider.read().await.map(drop);
            let adjusted = provider.adjust(create("a").create).await.map(drop);
            let failed = read.and(adjusted).expect_err("nothing but 200 is an answer");
            assert!(matches!(failed, ProviderError::Unavailable(_)), "{path} {status}: {failed}");
        }
    }
}

#[tokio::test]
async fn invalid_webhook_answers_are_errors_not_empty_lists() {
    let server = Scripted::start(|asked, body| match asked {
        "GET /" => Act::Say(200, "application/external.dns.webhook+json; version=1", "{}".to_owned()),
        _ => well(asked, body),
    });
    let provider = server.provider(Duration::from_secs(30));
    let error = provider.read().await.expect_err("there is a space in it");
    assert!(error.to_string().contains("media type"), "{error}");
    let whole = r#"[{"dnsName":"a.pub.example","targets":["203.0.113.1"],"recordType":"A"}]"#;
    for cut in 0..whole.len() {
        server.act(move |asked, body| match asked {
            "GET /records" => Act::Say(200, MEDIA_TYPE, whole[..cut].to_owned()),
            _ => well(asked, body),
        });
        assert!(provider.read().await.is_err(), "cut after {cut} octets");
    }
    server.act(|asked, body| if asked == "GET /records" { Act::Cut("[]".repeat(100)) } else { well(asked, body) });
    let error = provider.read().await.expect_err("it is not all there");
    assert!(error.to_string().contains("no complete HTTP answer"), "{error}");
    server.act(|asked, body| match asked {
        "GET /records" => Act::Say(200, MEDIA_TYPE, " ".repeat(33 << 20)),
        _ => well(asked, body),
    });
    assert!(provider.read().await.is_err(), "33 MiB are more than is read");
}

fn wanted_sets(names: &[&str]) -> Option<Arc<Wanted>> {
    let sets = names.iter().map(|name| set(name, Rtype::A, &["203.0.113.1"])).collect();
    Some(Arc::new(Wanted { sets, held: BTreeSet::new() }))
}

#[tokio::test]
async fn dropped_records_are_reported_and_not_sent() {
    let server = Scripted::start(|asked, body| match asked {
        "GET /" => Act::Say(200, MEDIA_TYPE, r#"{"exclude":["far.pub.example"]}"#.to_owned()),
        "POST /adjustendpoints" => {
            let mut kept = endpoints(body);
            kept.retain(|endpoint| !endpoint.dns_name.starts_with("bad"));
            Act::Say(200, MEDIA_TYPE, String::from_utf8(kept.to_json()).expect("JSON is text"))
        }
        _ => well(asked, body),
    });
    let (publisher, sender) = publisher(server.provider(TIMEOUT));
    sender.send_replace(wanted_sets(&["good", "bad", "a.far"]));
    let outcome = publisher.apply(0).await.expect("it is well");
    let names = |key: &fairway_model::RecordSetKey| key.name.to_string();
    let refused = &outcome.draft.refused;
    assert!(refused.iter().all(|(_, why)| *why == Obstacle::Dropped), "{refused:?}");
    let dropped: BTreeSet<_> = refused.iter().map(|(key, _)| names(key)).collect();
    assert_eq!(dropped, ["bad.pub.example.", "a.far.pub.example."].map(str::to_owned).into());
    let sent: Vec<_> = server.asked().into_iter().filter(|(asked, _)| asked == "POST /records").collect();
    assert!(sent.len() == 1 && sent[0].1.contains("good") && !sent[0].1.contains("bad."), "{sent:?}");
}

#[tokio::test]
async fn ttl_that_a_provider_does_not_return_is_not_planned_again() {
    let server = Scripted::start(|asked, body| match asked {
        "GET /records" => {
            let text = r#"[{"dnsName":"a.pub.example","targets":["203.0.113.1"],"recordType":"A","recordTTL":300},
                {"dnsName":"a-a.pub.example","targets":["heritage=external-dns,external-dns/owner=us"],"recordType":"TXT"}]"#;
            Act::Say(200, MEDIA_TYPE, text.to_owned())
        }
        "POST /adjustendpoints" => Act::Say(200, MEDIA_TYPE, body.replace(r#","recordTTL":30"#, "")),
        _ => well(asked, body),
    });
    let (publisher, sender) = publisher(server.provider(TIMEOUT));
    sender.send_replace(wanted_sets(&["a"]));
    let draft = publisher.draft(0).await.expect("it is well");
    assert!(draft.units.is_empty() && draft.kept.len() == 1, "{draft:?}");
}

#[tokio::test]
async fn hanging_or_lying_provider_times_out_and_deletes_nothing() {
    let server = Scripted::start(|_, _| Act::Hang);
    let (publisher, sender) = publisher(server.provider(Duration::from_secs(1)));
    sender.send_replace(wanted_sets(&["a"]));
    let begun = Instant::now();
    assert_eq!(publisher.apply(0).await.expect_err("nothing comes"), ProviderError::Late(Duration::from_secs(1)));
    assert!(begun.elapsed() < Duration::from_secs(10));
    // It returns nothing and accepts everything: the same is sent again, and nothing is deleted.
    server.act(well);
    for _ in 0..3 {
        let outcome = publisher.apply(1_000).await.expect("it says that it is well");
        assert_eq!((outcome.draft.changes.create.len(), outcome.draft.changes.delete.len()), (1, 0));
    }
}

#[cfg(feature = "real")]
mod real {
    use std::{net::SocketAddr, process::Command};

    use fairway_integration::real::{Fairway, Process, free_port, http_get, program, wait_until};
    use tempfile::TempDir;

    use super::*;
    use crate::{contract, scripted::provider};

    /// Foreign records at the start, as another ExternalDNS would have written them.
    const FOREIGN: &str = r#"{"create":[
        {"dnsName":"www.pub.example","targets":["192.0.2.80"],"recordType":"A"},
        {"dnsName":"theirs.pub.example","targets":["192.0.2.99"],"recordType":"A","recordTTL":300,"setIdentifier":""},
        {"dnsName":"a-theirs.pub.example","targets":["\"heritage=external-dns,external-dns/owner=another,external-dns/resource=service/x/y\""],"recordType":"TXT"},
        {"dnsName":"cloud.pub.example","targets":["192.0.2.1"],"recordType":"A","setIdentifier":"eu","providerSpecific":[{"name":"aws/weight","value":"7"}]},
        {"dnsName":"pub.example","targets":["10 mail.pub.example"],"recordType":"MX"}]}"#;

    /// The real external-dns as a webhook, with its in-memory provider. It always listens at 127.0.0.1:8888.
    #[tokio::test]
    async fn external_dns_in_memory_keeps_the_contract() {
        let folder = TempDir::new().expect("a temporary folder");
        let at = SocketAddr::from(([127, 0, 0, 1], 8_888));
        let mut command = Command::new(program("external-dns", "external-dns"));
        command.args(["--webhook-server", "--provider=inmemory", "--inmemory-zone=pub.example", "--source=fake"]);
        command.arg(format!("--metrics-address=127.0.0.1:{}", free_port()));
        let mut process = Process::start(&mut command, &folder.path().join("log"));
        wait_until("external-dns answers", Duration::from_secs(60), || {
            assert!(process.is_running(), "it ended: {}", process.output());
            http_get(at, "/").is_some()
        });
        let url = format!("http://{at}/records");
        let seeded = Command::new("curl").args(["-s", "-f", "-d", FOREIGN, &url]).status();
        assert!(seeded.is_ok_and(|status| status.success()), "{}", process.output());
        contract(provider(&format!("http://{at}"), TIMEOUT)).await;
    }

    #[tokio::test]
    async fn webhook_of_another_fairway_keeps_the_contract() {
        let webhook = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let config =
            format!("zones: [{{ name: pub.example, ns: [ns1.example.net] }}]\nwebhook: {{ listen: \"{webhook}\" }}\n");
        let _fairway = Fairway::start(&config, &[]);
        contract(provider(&format!("http://{webhook}/owners/one"), TIMEOUT)).await;
    }
}
