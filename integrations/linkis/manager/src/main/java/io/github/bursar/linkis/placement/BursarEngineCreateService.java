package io.github.bursar.linkis.placement;

import java.util.List;
import java.util.Map;
import org.apache.linkis.manager.am.service.engine.DefaultEngineCreateService;
import org.apache.linkis.manager.am.vo.CanCreateECRes;
import org.apache.linkis.manager.common.entity.node.EngineNode;
import org.apache.linkis.manager.common.protocol.engine.EngineCreateRequest;
import org.apache.linkis.manager.label.entity.Label;
import org.apache.linkis.rpc.Sender;
import org.apache.linkis.rpc.message.annotation.Receiver;

/**
 * Linkis's own service, which also notes what its thread creates: rules that choose an ECM are not
 * told that.
 */
public class BursarEngineCreateService extends DefaultEngineCreateService {
  @Override
  @Receiver
  public EngineNode createEngine(EngineCreateRequest request, Sender sender) {
    RequestInProgress.begin(request);
    try {
      return super.createEngine(request, sender);
    } finally {
      RequestInProgress.end();
    }
  }

  @Override
  public CanCreateECRes canCreateEC(EngineCreateRequest request) {
    RequestInProgress.begin(request);
    try {
      return super.canCreateEC(request);
    } finally {
      RequestInProgress.end();
    }
  }

  @Override
  public List<Label<?>> buildLabel(Map<String, Object> labels, String user) {
    List<Label<?>> built = super.buildLabel(labels, user);
    RequestInProgress current = RequestInProgress.current();
    if (current != null) {
      current.labels = built;
    }
    return built;
  }
}
