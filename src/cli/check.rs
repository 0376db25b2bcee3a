//! `fairway check`: every fault of configuration and zones at once, on standard output, and one line that sums up. What it does
//! with `--impact` is in `impact`.

use std::{path::PathBuf, process::ExitCode};

use fairway_model::Diagnostic;

use super::{
    args::CheckArgs,
    impact::impact,
    output::{Out, Palette, Tone, count},
    usage, variable,
};
use fairway_config::{Loaded, Source};

/// Checks, prints, and tells by the exit status whether there was an error.
pub(super) fn check(out: Out, args: CheckArgs) -> anyhow::Result<ExitCode> {
    let source = source(&args)?;
    if args.impact.impact {
        return impact(out, &source, &args.impact, args.strict);
    }
    let mut faults = fairway_config::check(&source, &variable);
    // Read once more, only where nothing is wrong with it: for the variables that it names, and for the sum.
    let loaded =
        if faults.iter().any(Diagnostic::is_error) { None } else { fairway_config::load(&source, &variable).ok() };
    if let Some(loaded) = &loaded {
        let names = std::env::vars_os().map(|(name, _)| name.to_string_lossy().into_owned());
        faults.extend(fairway_config::environment::unknown_variables(names, &loaded.variables));
    }
    let errors = faults.iter().filter(|f| f.is_error()).count();
    let warnings = faults.len() - errors;
    for fault in &faults {
        out.line(&line(out.palette, fault))?;
    }
    if !args.quiet {
        out.line(&summary(out.palette, loaded.as_ref(), errors, warnings))?;
    }
    Ok(if errors > 0 || (args.strict && warnings > 0) { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn source(args: &CheckArgs) -> anyhow::Result<Source> {
    if !args.zone.is_empty() {
        return Ok(Source::Flags { listen: Vec::new(), zones: args.zone.clone() });
    }
    match args.config.clone().or_else(|| variable("FAIRWAY_CONFIG").map(PathBuf::from)) {
        Some(path) => Ok(Source::Path(path)),
        None => usage("nothing to check: name a configuration, or zones with --zone NAME=FILE"),
    }
}

/// One fault on one line: place, kind, fact, way out.
fn line(palette: Palette, fault: &Diagnostic) -> String {
    let text = fault.to_string();
    let place = fault.location.to_string();
    let Some(rest) = text.strip_prefix(&place) else { return text };
    let tone = if fault.is_error() { Tone::Bad } else { Tone::Warn };
    palette.paint(tone, &place) + rest
}

fn summary(palette: Palette, loaded: Option<&Loaded>, errors: usize, warnings: usize) -> String {
    let number = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
    let warned = (warnings > 0).then(|| count(number(warnings), "warning", "warnings"));
    let Some(loaded) = loaded else {
        let errors = count(number(errors), "error", "errors");
        return palette.paint(Tone::Bad, &[Some(errors), warned].into_iter().flatten().collect::<Vec<_>>().join(", "));
    };
    let records = loaded.zones.iter().map(|zone| zone.records.len()).sum();
    let parts = [
        (number(loaded.zones.len()), "zone", "zones"),
        (number(records), "record", "records"),
        (number(loaded.desired.pools.len()), "pool", "pools"),
        (number(loaded.desired.names.len()), "steered name", "steered names"),
        (number(loaded.desired.records.len()), "declared record set", "declared record sets"),
    ];
    let parts: Vec<_> = parts.into_iter().filter(|(n, ..)| *n > 0).map(|(n, one, many)| count(n, one, many)).collect();
    let end = match warned {
        None => palette.paint(Tone::Good, "ok"),
        Some(warned) => palette.paint(Tone::Warn, &format!("ok, {warned}")),
    };
    format!("{}: {end}", parts.join(", "))
}

#[cfg(test)]
mod tests {
    use fairway_model::FileLocation;

    use super::*;

    #[test]
    fn a_fault_is_one_line_with_place_fact_and_way_out() {
        let place = FileLocation { file: "f.yaml".into(), line: 3, column: 7 };
        let fault = Diagnostic::error(place.clone(), "weight 70000 is over 65535", "give 0 to 65535");
        assert_eq!(line(Palette::PLAIN, &fault), "f.yaml:3:7: weight 70000 is over 65535; give 0 to 65535");
        let warning = Diagnostic::warning(place, "all weights are 0", "");
        assert_eq!(line(Palette::PLAIN, &warning), "f.yaml:3:7: warning: all weights are 0");
    }

    #[test]
    fn errors_and_warnings_are_summed_up() {
        assert_eq!(summary(Palette::PLAIN, None, 2, 1), "2 errors, 1 warning");
        assert_eq!(summary(Palette::PLAIN, None, 1, 0), "1 error");
    }
}
