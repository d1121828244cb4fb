//! A token never creates one that reaches further than itself, neither by its role nor by its queues.

use jobhall_core::Scope;
use jobhall_protocol::{Code, TokenKind, TokenRole};

use super::identity::{Identity, Role};
use crate::error::ApiError;

/// Checks a token that this identity wants to create.
pub(super) fn check(by: &Identity, role: TokenRole, kind: TokenKind, scope: &Scope) -> Result<(), ApiError> {
    if role == TokenRole::Admin && !scope.is_all() {
        let detail = "queues: the role admin covers the whole hall and cannot be limited to queues; \
                      leave queues out, or use the role client";
        return Err(ApiError::bad(detail));
    }
    let by_role = match by.role {
        Role::Admin => true,
        Role::Join => (role, kind) == (TokenRole::Worker, TokenKind::Plain),
        Role::Viewer | Role::Client | Role::Worker | Role::Job => false,
    };
    if by_role && by.bound.is_none() && by.scope.covers(scope) {
        return Ok(());
    }
    let detail = format!("token {} cannot create a token that reaches further than itself", by.name);
    Err(ApiError::new(Code::Forbidden, detail))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROLES: [TokenRole; 4] = [TokenRole::Viewer, TokenRole::Client, TokenRole::Worker, TokenRole::Admin];
    const KINDS: [TokenKind; 2] = [TokenKind::Plain, TokenKind::Join];

    fn scope(queues: &[&str]) -> Scope {
        Scope::new(queues).unwrap()
    }

    fn makes(by: Role, own: &[&str], role: TokenRole, kind: TokenKind, queues: &[&str]) -> bool {
        let by = Identity::new("1", "n", by).within(scope(own));
        check(&by, role, kind, &scope(queues)).is_ok()
    }

    #[test]
    fn audit_h1_no_token_creates_one_that_reaches_further() {
        for (role, kind) in ROLES.into_iter().flat_map(|role| KINDS.map(|kind| (role, kind))) {
            let limited = role != TokenRole::Admin;
            assert!(makes(Role::Admin, &[], role, kind, &[]));
            assert_eq!(makes(Role::Admin, &[], role, kind, &["a"]), limited, "no limited administrator");
            assert!(!makes(Role::Admin, &["a"], role, kind, &[]), "{role:?}: all queues from one");
            assert!(!makes(Role::Admin, &["a"], role, kind, &["a", "b"]), "{role:?}: two queues from one");
            assert_eq!(makes(Role::Admin, &["a*"], role, kind, &["a-1"]), limited);
            let worker = role == TokenRole::Worker && kind == TokenKind::Plain;
            assert_eq!(makes(Role::Join, &["a"], role, kind, &["a"]), worker, "{role:?} {kind:?}");
            assert!(
                !makes(Role::Join, &["a"], role, kind, &["b"]) && !makes(Role::Join, &["a"], role, kind, &[])
            );
            for by in [Role::Viewer, Role::Client, Role::Worker, Role::Job] {
                assert!(!makes(by, &[], role, kind, &[]), "{by:?} creates {role:?}");
            }
        }
    }
}
