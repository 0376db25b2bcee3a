use super::*;

fn ask(path: &str, known: Option<&str>) -> Response {
    let mut headers = HeaderMap::new();
    known.into_iter().for_each(|known| drop(headers.insert(header::IF_NONE_MATCH, known.parse().unwrap())));
    file(path, &headers).expect("a file of the page")
}

fn tag(path: &str) -> String {
    ask(path, None).headers()[header::ETAG].to_str().unwrap().to_owned()
}

#[test]
fn every_file_of_the_folder_is_served_and_says_what_it_is() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/page/files");
    let mut there: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    let name = |file: &File| file.path.strip_prefix("/page/").unwrap_or("index.html").to_owned();
    let mut served: Vec<_> = FILES.iter().map(name).collect();
    there.sort();
    served.sort();
    assert_eq!(there, served);
    for file in FILES {
        let kind = match file.path.rsplit('.').next() {
            Some("js") => SCRIPT,
            Some("css") => STYLE,
            Some("svg") => IMAGE,
            _ => HTML,
        };
        assert_eq!(ask(file.path, None).headers()[header::CONTENT_TYPE], kind, "{}", file.path);
    }
}

#[test]
fn a_file_that_the_browser_has_is_not_sent_again() {
    let (own, other) = (tag("/page/app.js"), tag("/page/app.css"));
    assert_ne!(own, other);
    assert!(own.starts_with('"'), "a strong tag: {own}");
    for known in [own.clone(), format!("{other}, {own}"), format!("W/{own}"), "*".to_owned()] {
        let answer = ask("/page/app.js", Some(&known));
        assert_eq!(answer.status(), StatusCode::NOT_MODIFIED, "{known}");
        assert_eq!(answer.headers()[header::ETAG], own.as_str());
    }
    assert_eq!(ask("/page/app.js", Some(&other)).status(), StatusCode::OK);
}

#[test]
fn a_browser_is_told_to_run_nothing_but_these_files() {
    for file in FILES {
        let answer = ask(file.path, None);
        let policy = answer.headers()[header::CONTENT_SECURITY_POLICY].to_str().unwrap();
        assert!(policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self';"), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
    }
}

/// The page works without a network: the one address in it names SVG, and is never fetched.
#[test]
fn nothing_is_loaded_from_elsewhere_and_texts_stay_texts() {
    for file in FILES {
        let elsewhere = file.body.replace("http://www.w3.org/2000/svg", "");
        for word in ["http://", "https://", "innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("] {
            assert!(!elsewhere.contains(word), "{} has {word}", file.path);
        }
        assert!(!file.body.contains(" style=\"") && !file.body.contains(" onclick="), "{}", file.path);
    }
}
