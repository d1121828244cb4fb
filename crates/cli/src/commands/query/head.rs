//! What a pipe begins with: a local file and standard input become sources that are named by the digest of their data.
//! The data is sent only if the server does not have it.

use std::path::Path;

use jobhall_client::media_type_of;
use jobhall_core::query::{PipeHead, Query, Source, SourceKey, Span};
use jobhall_protocol::SOURCE_BY_DIGEST;

use crate::commands::source::upload::Data;
use crate::context::Context;
use crate::failure::{Failure, Outcome};

/// Local data that a query begins with.
#[derive(Debug)]
pub struct Local {
    data: Data,
    digest: String,
    media_type: &'static str,
}

/// Reads the local data that a pipe begins with, and names it in the query.
pub fn read(head: Option<&PipeHead>, query: Query) -> Outcome<(Option<Local>, Query)> {
    let (mut data, media_type) = match head {
        Some(PipeHead::File(path)) => (Data::file(Path::new(path))?, media_type_of(path)),
        Some(PipeHead::Stdin) => (Data::stdin()?, "application/octet-stream"),
        Some(PipeHead::Source(_)) | None => return Ok((None, query)),
    };
    let digest = data.digest()?;
    let key = SourceKey::new(&key(&digest));
    let key = key.map_err(|why| Failure::usage(format!("the key of a source {why}")))?;
    let query = Query { source: Some(Source { key, span: Span::default() }), ..query };
    Ok((Some(Local { data, digest, media_type }), query))
}

fn key(digest: &str) -> String {
    format!("{SOURCE_BY_DIGEST}{digest}")
}

impl Local {
    /// Sends the data if the server does not have it.
    pub async fn send(&self, context: &Context) -> Outcome<()> {
        let Local { data, digest, media_type } = self;
        let key = key(digest);
        if context.client()?.has_source(&key).await? {
            return Ok(());
        }
        let source = data.put(context, &key, media_type, Some(digest)).await?;
        context.output.detail(&format!("sent {} bytes as {}", source.size, source.key));
        Ok(())
    }
}
