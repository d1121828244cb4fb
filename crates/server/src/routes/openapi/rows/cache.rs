//! Routes of the cache of values.

use jobhall_protocol as wire;
use jobhall_protocol::{Code, Page};

use super::super::super::cache::{CacheQuery, DropQuery, VerifyQuery};
use super::super::Row;
use super::queries::PLANNED;
use super::{JSON, LOCATION, get, part, post, put};

/// Problems of a pin that is removed: the text of its query is wrong, or it is not pinned.
const UNPINNED: &[Code] = &[
    Code::BadRequest,
    Code::NotFound,
    Code::Conflict,
    Code::QuerySyntax,
    Code::QueryTooLong,
    Code::QueryTooLarge,
    Code::Unavailable,
    Code::StorageFull,
];

pub(super) fn all() -> Vec<Row> {
    vec![
        get("/api/v1/cache", "listCache", "List stored values, newest first, or find that of a query")
            .query::<CacheQuery>()
            .gives::<Page<wire::CachedValue>>("A page")
            .problems(PLANNED),
        Row::new("DELETE", "/api/v1/cache", "dropCache", "Remove stored values, or count them")
            .query::<DropQuery>()
            .gives::<wire::CacheDropped>("What was removed")
            .problems(PLANNED),
        get("/api/v1/cache/stats", "cacheStats", "Figures of the cache")
            .gives::<wire::CacheStats>("The figures")
            .problems(&[Code::Unavailable]),
        put(
            "/api/v1/cache/pins/{*query}",
            "pinValue",
            "Keep the value of a query, whether it is stored yet or not",
        )
        .gives::<wire::CachePin>("It was pinned before")
        .telling(LOCATION)
        .answers_with(201, "A new pin", Some((JSON, part::<wire::CachePin>)))
        .telling(LOCATION)
        .problems(PLANNED),
        Row::new(
            "DELETE",
            "/api/v1/cache/pins/{*query}",
            "unpinValue",
            "Remove a pin, by the text of its query or by its identity",
        )
        .answers_with(204, "The value is not pinned", None)
        .problems(UNPINNED),
        post(
            "/api/v1/cache/verify",
            "verifyCache",
            "Read stored values again and forget those that are damaged",
        )
        .query::<VerifyQuery>()
        .gives::<wire::CacheVerified>("What was found")
        .problems(&[Code::BadRequest, Code::Unavailable]),
    ]
}
