package io.github.bursar.linkis.ecm;

/** An engine that this ECM has started. */
final class StartedEngine {
  final String ticket;

  /** Its JVM; null: it was not found yet. */
  volatile EngineProcess jvm;

  StartedEngine(String ticket) {
    this.ticket = ticket;
  }
}
