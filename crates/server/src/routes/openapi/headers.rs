//! Headers of requests.

use jobhall_protocol::{DIGEST_HEADER, LEASE_HEADER, WORKER_HEADER, schema};

use super::parameters::Header;

const OF_ATTEMPT: Header = Header::new::<schema::Lease>(
    LEASE_HEADER,
    "Lease of the attempt: 32 hex digits. The process of a job, whose token is bound to the attempt, may omit it",
);
const AS_WORKER: Header =
    Header::new::<schema::Name>(WORKER_HEADER, "Name of the worker, if the token is an administrator's");
const ONE_RANGE: Header = Header::new::<schema::ByteRange>(
    "Range",
    "One range in bytes, such as bytes=100-; anything else is ignored",
);
const KNOWN: Header =
    Header::new::<schema::EntityTags>("If-None-Match", "Versions that the client has cached");
const KNOWN_CONTENT: Header =
    Header::new::<schema::ContentTags>("If-None-Match", "Versions that the client has cached");
pub(super) const RANGE: &[Header] = &[ONE_RANGE];
pub(super) const CACHED: &[Header] = &[KNOWN];
/// For values of queries.
pub(super) const PREFER: &[Header] = &[
    ONE_RANGE,
    KNOWN_CONTENT,
    Header::new::<schema::Preferences>(
        "Prefer",
        "respond-async, wait=N: answer with the promise after N seconds",
    ),
];
pub(super) const RANGE_OR_CACHED: &[Header] = &[ONE_RANGE, KNOWN_CONTENT];
pub(super) const WORKER: &[Header] = &[AS_WORKER];
/// For routes that workers use.
pub(super) const LEASE: &[Header] = &[
    Header::new::<schema::Lease>(LEASE_HEADER, "Lease of the attempt: 32 hex digits").required(),
    AS_WORKER,
];
/// For routes that the process of a job uses too.
pub(super) const LEASE_OR_JOB: &[Header] = &[OF_ATTEMPT, AS_WORKER];
pub(super) const INPUT_HEADERS: &[Header] = &[OF_ATTEMPT, AS_WORKER, ONE_RANGE, KNOWN_CONTENT];
const OF_BODY: Header = Header::new::<schema::Digest>(
    DIGEST_HEADER,
    "BLAKE3 hash of the body; a body with another hash is refused",
);
pub(super) const ARTIFACT: &[Header] = &[OF_ATTEMPT, AS_WORKER, OF_BODY];
pub(super) const WITH_DIGEST: &[Header] = &[OF_BODY];
pub(super) const POSITION: &[Header] =
    &[Header::new::<schema::Position>("Last-Event-ID", "Resume after this event")];
pub(super) const IDEMPOTENCY: &[Header] = &[Header::new::<schema::IdempotencyKey>(
    "Idempotency-Key",
    "Within a day, a repeated request returns the first response",
)];
pub(super) const VERSIONS: &[Header] = &[
    Header::new::<schema::EntityTags>(
        "If-Match",
        "Change only these versions; * matches any existing version",
    ),
    Header::new::<schema::EntityTags>("If-None-Match", "With *: create only if it does not exist"),
];
/// For the upgrade to a session.
pub(super) const SESSION: &[Header] = &[
    Header::new::<schema::Subprotocols>("Sec-WebSocket-Protocol", "jobhall.v1.json or jobhall.v1.msgpack"),
    AS_WORKER,
];
