package io.github.bursar.client;

/** Where an allocation is in its life. */
public enum AllocationState {
  /** Not known to this client. */
  UNSPECIFIED(false),
  WAITING(false),
  /** Granted, not yet confirmed: it returns by itself. */
  RESERVED(false),
  ACTIVE(false),
  RELEASED(true),
  /** Not confirmed, renewed or granted in time. */
  EXPIRED(true),
  CANCELED(true),
  /** Its host stopped reporting. */
  LOST(true);

  private final boolean ended;

  AllocationState(boolean ended) {
    this.ended = ended;
  }

  /** Whether it holds nothing any more, and never will again. */
  public boolean ended() {
    return ended;
  }

  static AllocationState of(String text) {
    return Json.constant(AllocationState.class, "ALLOCATION_STATE_", text, UNSPECIFIED);
  }

  String wireName() {
    return "ALLOCATION_STATE_" + name();
  }
}
