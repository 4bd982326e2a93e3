package io.github.bursar.linkis.placement;

import io.github.bursar.client.Resource;
import java.util.HashMap;
import java.util.function.Function;
import java.util.function.Supplier;
import org.apache.linkis.manager.am.conf.AMConfiguration;
import org.apache.linkis.manager.service.common.label.LabelFilter;
import org.apache.linkis.manager.am.service.engine.DefaultEngineCreateService;
import org.apache.linkis.manager.common.entity.resource.NodeResource;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * How much the engine that this thread creates will ask for: what Linkis computes a moment later,
 * from the same properties and configuration.
 */
final class RequestSize implements Supplier<Resource> {
  private static final Logger log = LoggerFactory.getLogger(RequestSize.class);

  private final Supplier<DefaultEngineCreateService> service;
  private final LabelFilter labelFilter;
  private final Function<org.apache.linkis.manager.common.entity.resource.Resource, Resource> mapper;

  RequestSize(
      Supplier<DefaultEngineCreateService> service,
      LabelFilter labelFilter,
      Function<org.apache.linkis.manager.common.entity.resource.Resource, Resource> mapper) {
    this.service = service;
    this.labelFilter = labelFilter;
    this.mapper = mapper;
  }

  /** Null: no engine is created here. Empty: not known. */
  @Override
  public Resource get() {
    RequestInProgress current = RequestInProgress.current();
    if (current == null) {
      return null;
    }
    if (current.labels == null) {
      return Resource.EMPTY;
    }
    try {
      HashMap<String, String> properties = new HashMap<>();
      if (current.request.getProperties() != null) {
        properties.putAll(current.request.getProperties());
      }
      // as long as stock waits for an engine
      long timeout = current.request.getTimeout() > 0
          ? current.request.getTimeout()
          : AMConfiguration.ENGINE_START_MAX_TIME.getValue().toLong();
      NodeResource asked = service.get().generateResource(
          properties, current.request.getUser(), labelFilter.choseEngineLabel(current.labels), timeout);
      return mapper.apply(asked.getMinResource());
    } catch (Exception e) {
      log.debug("the size of an engine is not known before its ECM is chosen", e);
      return Resource.EMPTY;
    }
  }
}
