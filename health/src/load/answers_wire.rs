//! Responses in JSON: a number at a JSON pointer, and the vector of a PromQL query (Prometheus' HTTP API, v1).

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::{
    error::ReadError,
    gateway::{AMOUNT_MAX, GatewayError},
};

/// Largest number of bytes of a JSON text: a vector of 10,000 clusters has under 2 MiB.
pub(super) const JSON_MAX: usize = 4 << 20;
/// Largest number of characters of a server's error that are quoted.
const QUOTED_MAX: usize = 200;

/// Returns the number at a JSON pointer; a string that contains a number is accepted.
pub(super) fn number_at(text: &[u8], pointer: &str) -> Result<f64, ReadError> {
    let value: Value = serde_json::from_slice(text).map_err(|error| content(format!("not JSON: {error}")))?;
    let found = value.pointer(pointer).ok_or_else(|| content(format!("no value at {pointer:?}")))?;
    let number = match found {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.parse().ok(),
        _ => None,
    };
    amount(pointer, number.ok_or_else(|| content(format!("the value at {pointer:?} is not a number")))?)
}

/// Returns the values of an instant vector by the label that names their cluster. Samples without the label are ignored.
pub(super) fn vector(text: &[u8], label: &str) -> Result<BTreeMap<String, f64>, ReadError> {
    let response: ApiResponse =
        serde_json::from_slice(text).map_err(|error| content(format!("not a response of Prometheus' API: {error}")))?;
    let data = match response {
        ApiResponse { status, data: Some(data), .. } if status == "success" => data,
        ApiResponse { error, .. } => {
            let quoted: String = error.unwrap_or_default().chars().take(QUOTED_MAX).collect();
            return Err(content(format!("Prometheus rejected the query: {quoted:?}")));
        }
    };
    if data.result_type != "vector" {
        return Err(content(format!(
            "the query returned a {:.20}, expected a vector; end it with an aggregation",
            data.result_type
        )));
    }
    let samples: Vec<VectorSample> =
        serde_json::from_value(data.result).map_err(|error| content(format!("invalid vector: {error}")))?;
    let mut values = BTreeMap::new();
    for VectorSample { mut metric, value: (_, value) } in samples {
        let Some(cluster) = metric.remove(label) else { continue };
        let number = value.parse().map_err(|_| content(format!("{value:?} of {cluster:?} is not a number")))?;
        let number = amount(&cluster, number)?;
        if values.insert(cluster.clone(), number).is_some() {
            return Err(content(format!("{label} {cluster:?} occurs twice in the vector; sum by ({label})")));
        }
    }
    Ok(values)
}

fn amount(of: &str, number: f64) -> Result<f64, ReadError> {
    if (0.0..=AMOUNT_MAX).contains(&number) {
        Ok(number)
    } else {
        Err(GatewayError::Amount { metric: of.to_owned(), value: number }.into())
    }
}

fn content(what: String) -> ReadError {
    ReadError::Content(what)
}

/// The envelope of every response.
#[derive(Deserialize)]
struct ApiResponse {
    status: String,
    data: Option<ResponseData>,
    error: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResponseData {
    result_type: String,
    result: Value,
}

/// One sample of a vector.
#[derive(Deserialize)]
struct VectorSample {
    metric: BTreeMap<String, String>,
    /// The time, and the value as text.
    value: (f64, String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_is_found_by_its_pointer() {
        let text = br#"{"load":0.5,"of":{"eu1":["3",null]}}"#;
        assert_eq!(number_at(text, "/load"), Ok(0.5));
        assert_eq!(number_at(text, "/of/eu1/0"), Ok(3.0));
        assert_eq!(number_at(b"7", ""), Ok(7.0));
        let errors = ["/no", "/of", "/of/eu1/1"].map(|pointer| number_at(text, pointer).unwrap_err().to_string());
        assert_eq!(
            errors,
            [
                "no value at \"/no\"",
                "the value at \"/of\" is not a number",
                "the value at \"/of/eu1/1\" is not a number"
            ]
        );
        assert!(number_at(b"{\"load\":1", "/load").unwrap_err().to_string().starts_with("not JSON"));
        for odd in ["-1", "\"NaN\"", "1e300"] {
            assert!(matches!(number_at(odd.as_bytes(), ""), Err(ReadError::Metrics(_))), "{odd}");
        }
    }

    #[test]
    fn vector_gives_each_cluster_a_value() {
        let text = br#"{"status":"success","data":{"resultType":"vector","result":[
            {"metric":{"cluster":"eu1"},"value":[1700000000.1,"12.5"]},{"metric":{"job":"x"},"value":[1,"7"]},
            {"metric":{"cluster":"us1"},"value":[1,"0"]}]}}"#;
        let values = vector(text, "cluster").unwrap();
        assert_eq!(values.into_iter().collect::<Vec<_>>(), [("eu1".to_owned(), 12.5), ("us1".to_owned(), 0.0)]);
    }

    #[test]
    fn invalid_vector_is_rejected_as_a_whole() {
        let error = |result_type: &str, result: &str| {
            let text = format!(r#"{{"status":"success","data":{{"resultType":"{result_type}","result":{result}}}}}"#);
            vector(text.as_bytes(), "cluster").unwrap_err().to_string()
        };
        assert!(error("scalar", "[1,\"2\"]").starts_with("the query returned a scalar"));
        let one = r#"{"metric":{"cluster":"eu1"},"value":[1,"2"]}"#;
        assert!(error("vector", &format!("[{one},{one}]")).contains("occurs twice"));
        assert!(error("vector", &format!("[{}]", one.replace("\"2\"", "\"NaN\""))).contains("not an amount"));
        assert!(error("vector", &format!("[{}]", one.replace("\"2\"", "\"x\""))).contains("not a number"));
        let refused = br#"{"status":"error","errorType":"bad_data","error":"parse error"}"#;
        assert_eq!(
            vector(refused, "cluster").unwrap_err().to_string(),
            "Prometheus rejected the query: \"parse error\""
        );
    }
}
