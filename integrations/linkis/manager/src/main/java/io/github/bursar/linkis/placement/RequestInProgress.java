package io.github.bursar.linkis.placement;

import java.util.List;
import org.apache.linkis.manager.common.protocol.engine.EngineCreateRequest;
import org.apache.linkis.manager.label.entity.Label;

/** The request for which the current thread is about to choose an ECM. */
final class RequestInProgress {
  private static final ThreadLocal<RequestInProgress> CURRENT = new ThreadLocal<>();

  final EngineCreateRequest request;
  /** Its labels as Linkis has made them; null: not yet. */
  List<Label<?>> labels;

  private RequestInProgress(EngineCreateRequest request) {
    this.request = request;
  }

  static void begin(EngineCreateRequest request) {
    CURRENT.set(new RequestInProgress(request));
  }

  static void end() {
    CURRENT.remove();
  }

  /** Null: this thread creates no engine. */
  static RequestInProgress current() {
    return CURRENT.get();
  }
}
