package io.github.bursar.client;

/** How far an engine is on the way to being usable. */
public enum Phase {
  /** Nobody said what makes it ready, or it is not known to this client. */
  UNSPECIFIED,
  STARTING,
  READY,
  /** It was not ready in time, or ended before. */
  FAILED;

  static Phase of(String text) {
    return Json.constant(Phase.class, "PHASE_", text, UNSPECIFIED);
  }

  String wireName() {
    return "PHASE_" + name();
  }
}
