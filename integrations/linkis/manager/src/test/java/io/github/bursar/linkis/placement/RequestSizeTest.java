package io.github.bursar.linkis.placement;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.mockito.ArgumentMatchers.any;
import static org.mockito.ArgumentMatchers.anyLong;
import static org.mockito.ArgumentMatchers.eq;
import static org.mockito.Mockito.mock;
import static org.mockito.Mockito.when;

import io.github.bursar.client.Resource;
import io.github.bursar.linkis.mapping.ResourceMapper;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Map;
import org.apache.linkis.manager.am.service.engine.DefaultEngineCreateService;
import org.apache.linkis.manager.common.entity.resource.CommonNodeResource;
import org.apache.linkis.manager.common.entity.resource.LoadInstanceResource;
import org.apache.linkis.manager.common.protocol.engine.EngineCreateRequest;
import org.apache.linkis.manager.service.common.label.LabelFilter;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.springframework.beans.factory.config.BeanDefinition;
import org.springframework.beans.factory.support.DefaultListableBeanFactory;
import org.springframework.beans.factory.support.RootBeanDefinition;

class RequestSizeTest {
  private final DefaultEngineCreateService service = mock(DefaultEngineCreateService.class);
  private final LabelFilter filter = mock(LabelFilter.class);
  private final RequestSize size = new RequestSize(() -> service, filter, new ResourceMapper(1000)::request);
  private final EngineCreateRequest request = new EngineCreateRequest();

  @BeforeEach
  void start() {
    Assumptions.assumeTrue(new LoadInstanceResource(7, 0, 0).getMemory() == 7, "these are stubs of Linkis");
    Map<String, String> properties = new HashMap<>();
    properties.put("spark.driver.memory", "2g");
    request.setProperties(properties);
    request.setUser("alice");
    when(filter.choseEngineLabel(any())).thenReturn(new ArrayList<>());
  }

  @AfterEach
  void stop() {
    RequestInProgress.end();
  }

  @Test
  void itIsWhatLinkisWillAskFor() {
    CommonNodeResource asked = new CommonNodeResource();
    asked.setMinResource(new LoadInstanceResource(2L << 30, 2, 1));
    when(service.generateResource(any(), eq("alice"), any(), anyLong())).thenAnswer(call -> {
      call.<Map<String, String>>getArgument(0).put("from.the.console", "x"); // Linkis adds its configuration
      return asked;
    });
    RequestInProgress.begin(request);
    RequestInProgress.current().labels = new ArrayList<>();
    assertEquals(Resource.builder().memoryBytes(2L << 30).cpuMillis(2000).instances(1).build(), size.get());
    assertEquals(1, request.getProperties().size(), "the request stays as it is");
  }

  @Test
  void ifLinkisCannotTellItIsEmpty() {
    when(service.generateResource(any(), any(), any(), anyLong())).thenThrow(new IllegalStateException("no such plugin"));
    RequestInProgress.begin(request);
    assertEquals(Resource.EMPTY, size.get());
    RequestInProgress.current().labels = new ArrayList<>();
    assertEquals(Resource.EMPTY, size.get());
  }

  @Test
  void otherThreadsCreateNothing() throws Exception {
    RequestInProgress.begin(request);
    Resource[] seen = {Resource.EMPTY};
    Thread other = new Thread(() -> seen[0] = size.get());
    other.start();
    other.join();
    assertNull(seen[0]);
  }

  @Test
  void linkissServiceIsStillOneBean() {
    DefaultListableBeanFactory beans = new DefaultListableBeanFactory();
    beans.registerBeanDefinition("defaultEngineCreateService", new RootBeanDefinition(DefaultEngineCreateService.class.getName()));
    beans.registerBeanDefinition("other", new RootBeanDefinition(String.class));
    PlacementConfiguration.bursarEngineCreateService().postProcessBeanFactory(beans);
    BeanDefinition service = beans.getBeanDefinition("defaultEngineCreateService");
    assertEquals(BursarEngineCreateService.class.getName(), service.getBeanClassName());
    assertEquals(1, beans.getBeanNamesForType(DefaultEngineCreateService.class).length);
    assertTrue(beans.getBeanNamesForType(String.class).length == 1);
  }
}
