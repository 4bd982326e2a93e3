package io.github.bursar.linkis;

import io.github.bursar.client.BursarClient;
import java.time.Duration;

/** Makes the client that the manager's beans share. */
final class Bursar {
  /**
   * How long a call may take in addition to its wait. A change of leader takes 3 to 5 seconds; a
   * create thread of Linkis is held no longer than this if nobody answers.
   */
  private static final Duration CALL = Duration.ofSeconds(12);

  private Bursar() {}

  static BursarClient client(Settings settings) {
    return BursarClient.builder()
        .urls(settings.urls())
        .tokenFile(settings.tokenFile().orElse(null))
        .tlsCa(settings.tlsCa().orElse(null))
        .callTimeout(CALL)
        .attemptTimeout(Duration.ofSeconds(5))
        // Each of Linkis's 200 create threads may wait.
        .maxConnections(256)
        .build();
  }
}
