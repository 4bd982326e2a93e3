package io.github.bursar.linkis.ecm;

/** The agent refused a call, or did not answer it. */
final class AgentException extends Exception {
  private static final long serialVersionUID = 1;

  /** A code of Connect, as the API documents them: not_found, unavailable, … */
  final String code;

  AgentException(String code, String message) {
    super(message);
    this.code = code;
  }

  AgentException(String code, String message, Throwable cause) {
    super(message, cause);
    this.code = code;
  }

  /**
   * Whether the same call may succeed later: nobody answered, or there was too much to do. The call
   * may have had its effect; all calls that are made here can be repeated.
   */
  boolean isRetriable() {
    return code.equals("unavailable")
        || code.equals("deadline_exceeded")
        || code.equals("resource_exhausted")
        || code.equals("aborted");
  }

  /**
   * Whether it is no ticket of Bursar. Linkis's own are UUIDs, which are too long for an id of an
   * allocation.
   */
  boolean isUnknown() {
    return code.equals("not_found") || code.equals("invalid_argument");
  }
}
