//! Answers in JSON: a number somewhere in a text, and the vector of a PromQL query (Prometheus' HTTP API, v1).

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::{
    failure::ReadError,
    gateway::{AMOUNT_MAX, GatewayError},
};

/// Longest JSON text read: a vector of 10,000 clusters is under 2 MiB.
pub(super) const JSON_MAX: usize = 4 << 20;
/// Characters of somebody else's words that are quoted.
const QUOTED_MAX: usize = 200;

/// Returns the number that a JSON pointer leads to; text that is a number is one, too.
pub(super) fn number_at(text: &[u8], pointer: &str) -> Result<f64, ReadError> {
    let value: Value = serde_json::from_slice(text).map_err(|error| content(format!("no JSON: {error}")))?;
    let found = value.pointer(pointer).ok_or_else(|| content(format!("nothing is at {pointer:?}")))?;
    let number = match found {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.parse().ok(),
        _ => None,
    };
    amount(pointer, number.ok_or_else(|| content(format!("what is at {pointer:?} is no number")))?)
}

/// Returns the values of an instant vector by the label that names their cluster. Samples without the label are passed over.
pub(super) fn vector(text: &[u8], label: &str) -> Result<BTreeMap<String, f64>, ReadError> {
    let answer: Answer =
        serde_json::from_slice(text).map_err(|error| content(format!("no answer of Prometheus' API: {error}")))?;
    let data = match answer {
        Answer { status, data: Some(data), .. } if status == "success" => data,
        Answer { error, .. } => {
            let words: String = error.unwrap_or_default().chars().take(QUOTED_MAX).collect();
            return Err(content(format!("Prometheus refuses the query: {words:?}")));
        }
    };
    if data.result_type != "vector" {
        return Err(content(format!(
            "the query gives a {:.20} and no vector; let it end in an aggregation",
            data.result_type
        )));
    }
    let samples: Vec<Element> =
        serde_json::from_value(data.result).map_err(|error| content(format!("a vector that is none: {error}")))?;
    let mut values = BTreeMap::new();
    for Element { mut metric, value: (_, value) } in samples {
        let Some(cluster) = metric.remove(label) else { continue };
        let number = value.parse().map_err(|_| content(format!("{value:?} of {cluster:?} is no number")))?;
        let number = amount(&cluster, number)?;
        if values.insert(cluster.clone(), number).is_some() {
            return Err(content(format!("{label} {cluster:?} stands twice in the vector; sum by ({label})")));
        }
    }
    Ok(values)
}

fn amount(of: &str, number: f64) -> Result<f64, ReadError> {
    match (0.0..=AMOUNT_MAX).contains(&number) {
        true => Ok(number),
        false => Err(GatewayError::Amount { metric: of.to_owned(), value: number }.into()),
    }
}

fn content(what: String) -> ReadError {
    ReadError::Content(what)
}

/// The envelope of every answer.
#[derive(Deserialize)]
struct Answer {
    status: String,
    data: Option<Data>,
    error: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Data {
    result_type: String,
    result: Value,
}

/// One element of a vector.
#[derive(Deserialize)]
struct Element {
    metric: BTreeMap<String, String>,
    /// A time, and the value as text.
    value: (f64, String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_found_by_its_pointer_also_as_text() {
        let text = br#"{"load":0.5,"of":{"eu1":["3",null]}}"#;
        assert_eq!(number_at(text, "/load"), Ok(0.5));
        assert_eq!(number_at(text, "/of/eu1/0"), Ok(3.0));
        assert_eq!(number_at(b"7", ""), Ok(7.0));
        let faults = ["/no", "/of", "/of/eu1/1"].map(|pointer| number_at(text, pointer).unwrap_err().to_string());
        assert_eq!(
            faults,
            ["nothing is at \"/no\"", "what is at \"/of\" is no number", "what is at \"/of/eu1/1\" is no number"]
        );
        assert!(number_at(b"{\"load\":1", "/load").unwrap_err().to_string().starts_with("no JSON"));
        for odd in ["-1", "\"NaN\"", "1e300"] {
            assert!(matches!(number_at(odd.as_bytes(), ""), Err(ReadError::Metrics(_))), "{odd}");
        }
    }

    #[test]
    fn a_vector_gives_a_value_to_each_cluster_it_names() {
        let text = br#"{"status":"success","data":{"resultType":"vector","result":[
            {"metric":{"cluster":"eu1"},"value":[1700000000.1,"12.5"]},{"metric":{"job":"x"},"value":[1,"7"]},
            {"metric":{"cluster":"us1"},"value":[1,"0"]}]}}"#;
        let values = vector(text, "cluster").unwrap();
        assert_eq!(values.into_iter().collect::<Vec<_>>(), [("eu1".to_owned(), 12.5), ("us1".to_owned(), 0.0)]);
    }

    #[test]
    fn what_is_no_vector_names_twice_or_is_no_amount_is_refused_as_a_whole() {
        let fault = |result_type: &str, result: &str| {
            let text = format!(r#"{{"status":"success","data":{{"resultType":"{result_type}","result":{result}}}}}"#);
            vector(text.as_bytes(), "cluster").unwrap_err().to_string()
        };
        assert!(fault("scalar", "[1,\"2\"]").starts_with("the query gives a scalar"));
        let one = r#"{"metric":{"cluster":"eu1"},"value":[1,"2"]}"#;
        assert!(fault("vector", &format!("[{one},{one}]")).contains("stands twice"));
        assert!(fault("vector", &format!("[{}]", one.replace("\"2\"", "\"NaN\""))).contains("no amount"));
        assert!(fault("vector", &format!("[{}]", one.replace("\"2\"", "\"x\""))).contains("no number"));
        let refused = br#"{"status":"error","errorType":"bad_data","error":"parse error"}"#;
        assert_eq!(
            vector(refused, "cluster").unwrap_err().to_string(),
            "Prometheus refuses the query: \"parse error\""
        );
    }
}
