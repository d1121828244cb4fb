//! Notifications (LISTEN) from the database, for example about a new leader. They are hints: a node that misses one
//! finds the change when it polls.

use std::future::poll_fn;
use std::time::Duration;

use tokio::sync::watch;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{AsyncMessage, NoTls, Socket};

use super::Connector;
use crate::error::PgError;

/// Pause before the connection is reopened.
const AGAIN: Duration = Duration::from_secs(1);

impl Connector {
    /// Listens on a separate connection, reopened whenever it breaks, until no receiver is left. It also notifies
    /// when it starts, because earlier notifications are not received.
    pub(crate) async fn listen(self, channel: &'static str, told: watch::Sender<()>) {
        while !told.is_closed() {
            let listening = async {
                match &self.tls {
                    Some(tls) => self.hear(tls.clone(), channel, &told).await,
                    None => self.hear(NoTls, channel, &told).await,
                }
            };
            tokio::select! {
                heard = listening => {
                    if let Err(trouble) = heard {
                        tracing::debug!("failed to listen to the database: {trouble}");
                    }
                }
                () = told.closed() => return,
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// Listens until the connection breaks.
    async fn hear<T: MakeTlsConnect<Socket>>(
        &self,
        tls: T,
        channel: &str,
        told: &watch::Sender<()>,
    ) -> Result<(), PgError> {
        let (client, mut connection) = self.config.connect(tls).await?;
        let hearing = async {
            while let Some(message) = poll_fn(|context| connection.poll_message(context)).await {
                if let AsyncMessage::Notification(_) = message? {
                    told.send_replace(());
                }
            }
            Ok(())
        };
        // The request is sent while the connection is driven, and keeps it open afterwards.
        let asking = async {
            client.batch_execute(&format!("LISTEN {channel}")).await?;
            told.send_replace(());
            std::future::pending::<Result<(), PgError>>().await
        };
        tokio::select! {
            heard = hearing => heard,
            asked = asking => asked,
        }
    }
}
