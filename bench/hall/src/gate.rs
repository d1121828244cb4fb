//! CPU time of the server for a request that does nothing behind authentication, compared with an empty route of axum.

use serde_json::{Value, json};

use crate::http::{Connection, request};
use crate::process::Server;
use crate::turn::turn;
use crate::{Failed, Options};

/// The turns, and the ratios of the CPU time per request of adjacent turns.
pub async fn measure(options: &Options) -> Result<Value, Failed> {
    let mut hall = Server::hall(&options.binary, &options.directory.join("hall")).await?;
    hall.token = client(&hall).await?;
    let mut empty = Server::echo().await?;
    // Both sides read the same request.
    empty.token.clone_from(&hall.token);
    let token = request("GET", "/livez", &hall, "");
    let mut sides = [
        ("empty", &empty, request("GET", "/nothing", &empty, "")),
        ("livez", &hall, token.clone()),
        ("open", &hall, without_token(&token)?),
    ];
    let (mut turns, mut ratios) = (Vec::new(), Vec::new());
    for (name, server, request) in &sides {
        // Connections, caches and the allocator reach their steady state.
        turn(name, server, request, &Options { seconds: options.seconds / 4.0, ..options.clone() }).await?;
    }
    for _ in 0..options.rounds {
        let mut round = Vec::new();
        for (name, server, request) in &sides {
            round.push(turn(name, server, request, options).await?);
        }
        ratios.push(server_us(&round, "livez")? / server_us(&round, "empty")?);
        turns.append(&mut round);
        // Each side comes first equally often.
        sides.rotate_left(1);
    }
    ratios.sort_by(f64::total_cmp);
    let at = |quarter: usize| ratios[(ratios.len() - 1) * quarter / 4];
    let ratio = json!({ "min": at(0), "lower": at(1), "median": at(2), "upper": at(3), "max": at(4) });
    Ok(json!({ "ratio": ratio, "turns": turns }))
}

/// A token as clients have it: stored, unlike that of the administrator.
async fn client(hall: &Server) -> Result<String, Failed> {
    let wanted = json!({ "name": "client", "role": "client" }).to_string();
    let made = Connection::open(hall).await?.json(&request("POST", "/api/v1/tokens", hall, &wanted)).await?;
    Ok(made["secret"].as_str().ok_or("a token without a secret")?.to_owned())
}

/// The same request without its credential.
fn without_token(request: &[u8]) -> Result<Vec<u8>, Failed> {
    let text = std::str::from_utf8(request)?;
    let lines: Vec<_> = text.split("\r\n").filter(|line| !line.starts_with("Authorization:")).collect();
    Ok(lines.join("\r\n").into_bytes())
}

fn server_us(round: &[Value], name: &str) -> Result<f64, Failed> {
    let turn = round.iter().find(|turn| turn["name"] == name);
    turn.and_then(|turn| turn["server_us"].as_f64()).ok_or_else(|| format!("no turn of {name}").into())
}
