//! Versions of settings, each named by an entity tag. A request with `If-Match` changes that version or nothing. A
//! request without it changes the current version.

use axum::http::HeaderMap;
use axum::http::header::{HeaderName, IF_MATCH, IF_NONE_MATCH};
use serde::Serialize;

use crate::error::ApiError;

/// Maximum number of tries of a conflicting change without `If-Match`.
pub(super) const ROUNDS: usize = 20;

/// The entity tag of a version. It includes the content, because removed settings restart at their first rev.
pub(super) fn tag(rev: u32, content: &impl Serialize) -> Result<String, ApiError> {
    let content = serde_json::to_vec(content).map_err(ApiError::internal)?;
    let digest = blake3::hash(&content);
    Ok(format!("\"{rev}-{}\"", &digest.to_hex()[..8]))
}

/// The versions that a request names.
pub(super) struct Wanted {
    matching: Option<Tags>,
    none_matching: Option<Tags>,
}

impl Wanted {
    pub(super) fn of(headers: &HeaderMap) -> Result<Wanted, ApiError> {
        Ok(Wanted { matching: tags(headers, &IF_MATCH)?, none_matching: tags(headers, &IF_NONE_MATCH)? })
    }

    /// Whether the request may change this version; `None`: nothing is stored.
    pub(super) fn allows(&self, tag: Option<&str>) -> bool {
        self.matching.as_ref().is_none_or(|tags| tags.include(tag)) && !self.has(tag)
    }

    /// Whether the client already has this version.
    pub(super) fn has(&self, tag: Option<&str>) -> bool {
        self.none_matching.as_ref().is_some_and(|tags| tags.include(tag))
    }
}

/// The entity tags of a header.
enum Tags {
    Any,
    These(Vec<String>),
}

impl Tags {
    fn include(&self, tag: Option<&str>) -> bool {
        match (self, tag) {
            (_, None) => false,
            (Tags::Any, Some(_)) => true,
            (Tags::These(tags), Some(tag)) => tags.iter().any(|given| given == tag),
        }
    }
}

/// Tags have the form `"…"` and are separated by commas; `*` matches any.
fn tags(headers: &HeaderMap, name: &HeaderName) -> Result<Option<Tags>, ApiError> {
    let Some(value) = headers.get(name) else { return Ok(None) };
    let wrong =
        || ApiError::bad(format!("{name} is neither * nor a list of entity tags such as \"2-0a1b2c3d\""));
    let text = value.to_str().map_err(|_| wrong())?.trim();
    if text == "*" {
        return Ok(Some(Tags::Any));
    }
    let tag = |tag: &str| {
        let tag = tag.trim();
        let tag = tag.strip_prefix("W/").unwrap_or(tag);
        (tag.len() >= 2 && tag.starts_with('"') && tag.ends_with('"')).then(|| tag.to_owned())
    };
    let tags = text.split(',').map(tag).collect::<Option<_>>().ok_or_else(wrong)?;
    Ok(Some(Tags::These(tags)))
}
