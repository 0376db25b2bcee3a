//! `fairway explain`: of a running server, or of files alone.

use std::process::ExitCode;

use super::{args::ExplainArgs, ask, output::Out, wait};
use crate::api::client::ExplainQuery;

/// Explains and prints.
pub(super) fn explain(out: Out, args: ExplainArgs) -> anyhow::Result<ExitCode> {
    let client = ask::asked(&args.server)?;
    let query = ExplainQuery {
        name: args.name.to_string(),
        rtype: Some(args.rtype.to_string()),
        client: args.client.map(|network| network.to_string()),
    };
    let text = wait(async { Ok(client.explain(&query).await?) })?;
    out.line(text.trim_end())?;
    Ok(ExitCode::SUCCESS)
}
