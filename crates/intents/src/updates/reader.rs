//! Reads the parameters of a record by their full names. Each error points at its parameter; no error shows the value of a secret.

use std::collections::BTreeMap;

use fairway_http::Url;
use fairway_model::{Name, closest, intent::DnsUpdateRecord};

use super::mapping::{Provider, ProviderKind, Use};
use crate::{
    error::{BodyError, step},
    values::{Errors, Form},
};

/// The parameters of one record, with the errors found so far.
pub(super) struct ParameterReader<'a> {
    provider: &'static Provider,
    /// By full name: the name in the record and the value, which is never empty.
    values: BTreeMap<&'static str, (&'a str, &'a str)>,
    errors: Errors,
}

impl<'a> ParameterReader<'a> {
    pub(super) fn new(provider: &'static Provider, record: &'a DnsUpdateRecord) -> Self {
        let mut reader = Self { provider, values: BTreeMap::new(), errors: Vec::new() };
        for (given, value) in &record.parameters {
            if let Err(detail) = reader.add(given, value.expose().trim()) {
                reader.errors.push(BodyError::new(step(given), detail));
            }
        }
        reader
    }

    fn add(&mut self, given: &'a str, value: &'a str) -> Result<(), String> {
        let Some((name, is)) = self.provider.parameter(given) else { return Err(self.unknown(given)) };
        match is {
            Use::Unsupported(hint) => return Err(format!("{name} is not supported: {hint}")),
            _ if value.is_empty() => return Ok(()),
            Use::Fixed(only, reason) if !value.eq_ignore_ascii_case(only) => {
                return Err(format!("{name} can only be {only}: {reason}"));
            }
            _ => {}
        }
        match self.values.insert(name, (given, value)) {
            None => Ok(()),
            Some((other, _)) => Err(format!("it is the same parameter as {other} ({name}); keep one of them")),
        }
    }

    fn unknown(&self, given: &str) -> String {
        let names: Vec<_> = self.provider.settings().collect();
        let hint = match closest(given, names.iter().copied()) {
            Some(name) => format!("did you mean {name}?"),
            None => format!("the parameters are {}", names.join(", ")),
        };
        format!("{given:?} is not a parameter of the provider {}; {hint}", self.provider.name)
    }

    pub(super) fn kind(&self) -> ProviderKind {
        self.provider.kind
    }

    /// Returns true if the provider has this parameter, whether it is given or not.
    pub(super) fn has_parameter(&self, name: &str) -> bool {
        self.provider.parameter(name).is_some()
    }

    /// Records an error of a parameter. The error of a parameter that is not given points at all parameters.
    pub(super) fn error(&mut self, name: &str, detail: impl Into<String>) {
        let detail = format!("{name}: {}", detail.into());
        let pointer = self.values.get(name).map(|(given, _)| step(given)).unwrap_or_default();
        self.errors.push(BodyError::new(pointer, detail));
    }

    /// Returns all errors. If one points at a given parameter, errors of missing ones are dropped: the parameter may be misspelled.
    pub(super) fn into_errors(mut self) -> Errors {
        if self.errors.iter().any(|error| !error.pointer.is_empty()) {
            self.errors.retain(|error| !error.pointer.is_empty());
        }
        self.errors
    }

    /// Returns the value of a parameter.
    pub(super) fn text(&self, name: &str) -> Option<&'a str> {
        debug_assert!(self.has_parameter(name), "{} has no parameter {name}", self.provider.name);
        self.values.get(name).map(|(_, value)| *value)
    }

    pub(super) fn is_given(&self, name: &str) -> bool {
        self.text(name).is_some()
    }

    /// Returns the value of a required parameter, or records an error with the example.
    pub(super) fn required(&mut self, name: &str, example: &str) -> Option<&'a str> {
        let text = self.text(name);
        if text.is_none() {
            self.error(name, format!("is missing; give {example}"));
        }
        text
    }

    /// Returns the values of a parameter that external-dns repeats, which a record separates with commas.
    pub(super) fn list(&self, name: &str) -> Vec<&'a str> {
        let all = self.text(name).into_iter().flat_map(|text| text.split(','));
        all.map(str::trim).filter(|text| !text.is_empty()).collect()
    }

    /// Returns a list of domain names.
    pub(super) fn names(&mut self, name: &str) -> Vec<Name> {
        let mut names = Vec::new();
        for text in self.list(name) {
            match Name::without_control(text) {
                Ok(domain) => names.push(domain),
                Err(error) => {
                    self.error(name, format!("{text:?} is not a domain name: {error}; write it like example.com"));
                }
            }
        }
        if names.len() > NAMES_MAX {
            self.error(
                name,
                format!("has {} names, at most {NAMES_MAX} are allowed; create several records", names.len()),
            );
        }
        names
    }

    /// Parses a parameter.
    pub(super) fn read<F: Form>(&mut self, name: &str, form: &F) -> Option<F::Value> {
        match form.parse(&self.text(name)?.into()) {
            Ok(value) => Some(value),
            Err(errors) => {
                for error in errors {
                    self.error(name, error.detail);
                }
                None
            }
        }
    }

    /// Parses the URL of an API. Errors do not show it, because it may contain a password.
    pub(super) fn url(&mut self, name: &str, text: &str) -> Option<Url> {
        let url = Url::parse_base(text);
        url.map_err(|error| self.error(name, format!("{error}; {}", error.hint()))).ok()
    }

    /// Parses an endpoint of etcd. Errors do not show it, because it may contain a password.
    pub(super) fn endpoint(&mut self, name: &str, text: &str) -> Option<Url> {
        let hint = "write http://HOST:PORT or https://HOST:PORT, without a path";
        Url::parse_origin(text).map_err(|error| self.error(name, format!("{error}; {hint}"))).ok()
    }
}

/// Maximum number of names of one parameter; as many as zones of a provider in the configuration.
const NAMES_MAX: usize = 256;
