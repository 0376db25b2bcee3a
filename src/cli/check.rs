//! `fairway check`: prints all errors of configuration and zones, and a summary. `impact` does what `--impact` asks for.

use std::process::ExitCode;

use fairway_model::Diagnostic;

use super::{
    args::CheckArgs,
    configured,
    impact::impact,
    output::{Out, Palette, Tone, count},
    variable, wait,
};
use fairway_config::{Loaded, Source};

/// Checks and prints. Fails if there is an error, or with `--strict` a warning.
pub(super) fn check(out: Out, args: CheckArgs) -> anyhow::Result<ExitCode> {
    let source = source(&args)?;
    if args.impact.impact {
        return impact(out, &source, &args.impact, args.strict);
    }
    let mut diagnostics = fairway_config::check(&source, &variable);
    // Loaded once more if there is no error, for the summary and for the variables that the configuration names.
    let has_error = diagnostics.iter().any(Diagnostic::is_error);
    let loaded = if has_error { None } else { fairway_config::load(&source, &variable).ok() };
    if let Some(loaded) = &loaded {
        let names = std::env::vars_os().map(|(name, _)| name.to_string_lossy().into_owned());
        diagnostics.extend(fairway_config::environment::unknown_variables(names, &loaded.variables));
        diagnostics.extend(fairway_config::missing_user(&source, loaded, &variable));
        diagnostics.extend(wait(unusable_kubeconfigs(loaded))?);
    }
    let errors = diagnostics.iter().filter(|diagnostic| diagnostic.is_error()).count();
    let warnings = diagnostics.len() - errors;
    for diagnostic in &diagnostics {
        out.line(&line(out.palette, diagnostic))?;
    }
    if !args.quiet {
        out.line(&summary(out.palette, loaded.as_ref(), errors, warnings))?;
    }
    Ok(if errors > 0 || (args.strict && warnings > 0) { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Returns a warning for each kubeconfig file that the server could not use here. It would start without that cluster's API.
async fn unusable_kubeconfigs(loaded: &Loaded) -> anyhow::Result<Vec<Diagnostic>> {
    let mut warnings = vec![];
    for (name, cluster) in &loaded.desired.clusters {
        let Some(api) = &cluster.kubernetes else { continue };
        let location = loaded.file_objects.get("clusters", name.as_str()).map(|object| object.location.clone());
        if let (Some(location), Some(why)) = (location, fairway_sources::kubeconfig_error(api).await) {
            let what = format!("cluster {name}: {why}");
            warnings.push(Diagnostic::warning(
                location,
                what,
                "the server would start, and read nothing from its Kubernetes API",
            ));
        }
    }
    Ok(warnings)
}

fn source(args: &CheckArgs) -> anyhow::Result<Source> {
    if !args.zone.is_empty() {
        return Ok(Source::Flags { listen: Vec::new(), zones: args.zone.clone() });
    }
    configured(
        args.config.as_ref().or(args.config_flag.as_ref()),
        "nothing to check: give a configuration, or zones with --zone NAME=FILE",
    )
}

/// Formats an error or warning as one line: location, kind, error, hint.
fn line(palette: Palette, diagnostic: &Diagnostic) -> String {
    let text = diagnostic.to_string();
    let location = diagnostic.location.to_string();
    let Some(rest) = text.strip_prefix(&location) else { return text };
    let tone = if diagnostic.is_error() { Tone::Bad } else { Tone::Warn };
    palette.paint(tone, &location) + rest
}

/// Counts what was loaded, or the errors if nothing was.
fn summary(palette: Palette, loaded: Option<&Loaded>, errors: usize, warnings: usize) -> String {
    let warnings = (warnings > 0).then(|| count(warnings as u64, "warning", "warnings"));
    let Some(loaded) = loaded else {
        let errors = count(errors as u64, "error", "errors");
        let text = warnings.map_or_else(|| errors.clone(), |warnings| format!("{errors}, {warnings}"));
        return palette.paint(Tone::Bad, &text);
    };
    let parts = [
        (loaded.zones.len(), "zone", "zones"),
        (loaded.zones.iter().map(|zone| zone.records.len()).sum(), "record", "records"),
        (loaded.desired.pools.len(), "pool", "pools"),
        (loaded.desired.names.len(), "steered name", "steered names"),
        (loaded.desired.records.len(), "declared record set", "declared record sets"),
    ];
    let parts = parts.into_iter().filter(|(number, ..)| *number > 0);
    let parts: Vec<_> = parts.map(|(number, one, many)| count(number as u64, one, many)).collect();
    let end = match warnings {
        None => palette.paint(Tone::Good, "ok"),
        Some(warnings) => palette.paint(Tone::Warn, &format!("ok, {warnings}")),
    };
    format!("{}: {end}", parts.join(", "))
}

#[cfg(test)]
mod tests {
    use fairway_model::FileLocation;

    use super::*;

    #[test]
    fn diagnostic_is_one_line_with_location_error_and_hint() {
        let location = FileLocation { file: "f.yaml".into(), line: 3, column: 7 };
        let error = Diagnostic::error(location.clone(), "weight 70000 is over 65535", "give 0 to 65535");
        assert_eq!(line(Palette::PLAIN, &error), "f.yaml:3:7: weight 70000 is over 65535; give 0 to 65535");
        let warning = Diagnostic::warning(location, "all weights are 0", "");
        assert_eq!(line(Palette::PLAIN, &warning), "f.yaml:3:7: warning: all weights are 0");
    }

    #[test]
    fn summary_counts_errors_and_warnings() {
        assert_eq!(summary(Palette::PLAIN, None, 2, 1), "2 errors, 1 warning");
        assert_eq!(summary(Palette::PLAIN, None, 1, 0), "1 error");
    }
}
